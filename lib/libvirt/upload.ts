/**
 * An upload: the source's bytes cut into libvirt's packets. Small chunks are joined, because a packet per byte would
 * cost 29 bytes on the wire and a write each; a packet that is full goes out at once.
 */
import { Readable } from 'node:stream';
import { allocateFrame, FRAME_PREFIX_BYTES, STREAM_PAYLOAD_MAX_BYTES } from './framing.ts';
import type { RpcStream } from './rpc-stream.ts';

/**
 * Sends the whole source over the stream that `open` begins. On failure the daemon is told and the source is ended, also
 * when it was never begun: an HTTP body that nobody reads would hold its connection.
 * @throws whatever failed the stream or the source.
 */
export async function sendAll(
  open: () => Promise<RpcStream>,
  source: AsyncIterable<Uint8Array>,
): Promise<void> {
  const chunks = source[Symbol.asyncIterator]();
  let stream: RpcStream | undefined;
  try {
    stream = await open();
    await pump(stream, chunks);
    await stream.finish();
  } catch (error) {
    stream?.abort(error);
    endSource(source, chunks);
    throw error;
  }
}

async function pump(stream: RpcStream, chunks: AsyncIterator<Uint8Array>): Promise<void> {
  const packer = new PacketPacker();
  for (;;) {
    // The source has its own time; but a failure of the stream does not wait for its next chunk.
    const next = await stream.within(chunks.next(), Number.POSITIVE_INFINITY);
    if (next.done) {
      break;
    }
    for (const packet of packer.add(next.value)) {
      await stream.send(packet);
    }
  }
  const last = packer.rest();
  if (last.length > FRAME_PREFIX_BYTES) {
    await stream.send(last);
  }
}

/** Not awaited: a source that hangs would take its `return` along. */
function endSource(source: AsyncIterable<Uint8Array>, chunks: AsyncIterator<Uint8Array>): void {
  if (source instanceof Readable) {
    source.destroy();
  }
  Promise.resolve(chunks.return?.()).catch(() => undefined);
}

/** Copies the source into frames as they will be sent: 512 MiB are not copied a second time to get their headers. */
class PacketPacker {
  #frame = allocateFrame(STREAM_PAYLOAD_MAX_BYTES);
  #filled = FRAME_PREFIX_BYTES;

  /** The frames that this chunk filled, without their headers. */
  *add(chunk: Uint8Array): Generator<Buffer> {
    let offset = 0;
    while (offset < chunk.length) {
      const taken = Math.min(chunk.length - offset, this.#frame.length - this.#filled);
      this.#frame.set(chunk.subarray(offset, offset + taken), this.#filled);
      this.#filled += taken;
      offset += taken;
      if (this.#filled === this.#frame.length) {
        yield this.#frame;
        // Never the same memory: a stream may keep what it was given for as long as it likes.
        this.#frame = allocateFrame(STREAM_PAYLOAD_MAX_BYTES);
        this.#filled = FRAME_PREFIX_BYTES;
      }
    }
  }

  /** What is left at the end of the source; may be a prefix and no payload. */
  rest(): Buffer {
    return this.#frame.subarray(0, this.#filled);
  }
}
