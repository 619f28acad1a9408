/**
 * The bytes of one file on the embedded host. Only chunks that hold something other than zeros take memory, so an
 * overlay of 10 GiB costs its header and a raw claim volume costs nothing.
 */
import { createHash } from 'node:crypto';

const CHUNK_BYTES = 65_536;
const BLOCK_BYTES = 4_096;

export class SparseFile {
  readonly #chunks = new Map<number, Uint8Array>();
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** What the file takes on the host, in whole blocks. */
  get allocatedBytes(): number {
    const blocks = Math.ceil(this.#sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
    return Math.min(this.#chunks.size * CHUNK_BYTES, blocks);
  }

  /** Grows with zeros, or cuts off. */
  truncate(sizeBytes: number): void {
    for (const index of this.#chunks.keys()) {
      const start = index * CHUNK_BYTES;
      if (start >= sizeBytes) {
        this.#chunks.delete(index);
      } else if (start + CHUNK_BYTES > sizeBytes) {
        this.#chunks.get(index)?.fill(0, sizeBytes - start);
      }
    }
    this.#sizeBytes = sizeBytes;
  }

  write(offset: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      const at = offset + done;
      const within = at % CHUNK_BYTES;
      const part = bytes.subarray(done, done + CHUNK_BYTES - within);
      this.#chunkFor(Math.floor(at / CHUNK_BYTES), part)?.set(part, within);
      done += part.length;
    }
    this.#sizeBytes = Math.max(this.#sizeBytes, offset + bytes.length);
  }

  /** At most `length` bytes; fewer at the end of the file. */
  read(offset: number, length: number): Uint8Array {
    const wanted = Math.max(0, Math.min(length, this.#sizeBytes - offset));
    const bytes = new Uint8Array(wanted);
    for (let done = 0; done < wanted; ) {
      const at = offset + done;
      const within = at % CHUNK_BYTES;
      const count = Math.min(CHUNK_BYTES - within, wanted - done);
      const chunk = this.#chunks.get(Math.floor(at / CHUNK_BYTES));
      if (chunk) {
        bytes.set(chunk.subarray(within, within + count), done);
      }
      done += count;
    }
    return bytes;
  }

  *chunks(offset = 0, length = Number.POSITIVE_INFINITY): Generator<Uint8Array> {
    const end = Math.min(offset + length, this.#sizeBytes);
    for (let at = offset; at < end; at += CHUNK_BYTES) {
      yield this.read(at, Math.min(CHUNK_BYTES, end - at));
    }
  }

  /** In hexadecimal. */
  sha256(): string {
    const hash = createHash('sha256');
    for (const chunk of this.chunks()) {
      hash.update(chunk);
    }
    return hash.digest('hex');
  }

  #chunkFor(index: number, part: Uint8Array): Uint8Array | undefined {
    const existing = this.#chunks.get(index);
    if (existing || isZero(part)) {
      return existing;
    }
    const fresh = new Uint8Array(CHUNK_BYTES);
    this.#chunks.set(index, fresh);
    return fresh;
  }
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

const isZero = (bytes: Uint8Array): boolean => ZEROS.compare(bytes, 0, bytes.length, 0, bytes.length) === 0;
