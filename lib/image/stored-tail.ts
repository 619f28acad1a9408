/**
 * A daemon can confirm an upload that did not fit: libvirtd 9.0 answers the client's end before its writer has failed on
 * a full file system (of uploads of 100 kB into a pool of 64 KiB every one was confirmed, of 600 kB one in five, of 1.2 MB
 * none). What is lost then is the end, so the end is read back and compared before the image is called complete.
 */
import { ERROR_CODE, LibvirtError, type StorageVolHandle } from '../libvirt/index.ts';
import { ImageError } from './image-error.ts';
import type { ImagePlace } from './image-volumes.ts';

/** More than a daemon was ever seen to lose, and a few packets to read. */
const TAIL_BYTES = 2 * 1024 * 1024;

/** Keeps the last bytes of what passes by. Holds at most TAIL_BYTES and one chunk. */
export class TailKeeper {
  readonly #chunks: Uint8Array[] = [];
  #keptBytes = 0;

  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#keptBytes += chunk.length;
    for (let first = this.#chunks[0]; first !== undefined; first = this.#chunks[0]) {
      if (this.#keptBytes - first.length < TAIL_BYTES) return;
      this.#keptBytes -= first.length;
      this.#chunks.shift();
    }
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks).subarray(-TAIL_BYTES);
  }
}

/** @throws ImageError `no-space` when the volume does not end in these bytes; libvirt's errors. */
export async function requireStoredTail(
  { connection, pool, options }: ImagePlace,
  vol: StorageVolHandle,
  sizeBytes: number,
  tail: Buffer,
): Promise<void> {
  const stored: Uint8Array[] = [];
  const range = { offset: BigInt(sizeBytes - tail.length), length: BigInt(tail.length), flags: 0 };
  try {
    for await (const chunk of connection.download('storageVolDownload', { vol, ...range }, options)) {
      stored.push(chunk);
    }
  } catch (error) {
    // Cleaned away by a successor, since this importer outlived its claim: that is found out when the verdict is given.
    if (error instanceof LibvirtError && error.code === ERROR_CODE.noStorageVol) return;
    throw error;
  }
  if (Buffer.concat(stored).equals(tail)) return;
  throw new ImageError(
    'no-space',
    `the end of volume ${vol.name} is not what was sent, although the upload was confirmed: pool ${pool.name} ran full`,
  );
}
