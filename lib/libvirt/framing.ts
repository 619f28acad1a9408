/**
 * Frames of libvirt's RPC: a 4-byte length that counts itself, a 24-byte header, a payload. Everything here is read off
 * the wire before it can be trusted, so a length is bounded before it decides about memory, and memory grows with the
 * bytes that really arrived.
 */
import { LibvirtTransportError } from './errors.ts';

const LENGTH_BYTES = 4;
const HEADER_BYTES = 24;
export const FRAME_PREFIX_BYTES = LENGTH_BYTES + HEADER_BYTES;
/** VIR_NET_MESSAGE_MAX plus the length word, which that limit does not count. */
export const FRAME_MAX_BYTES = 33_554_432 + LENGTH_BYTES;
/** VIR_NET_MESSAGE_LEGACY_PAYLOAD_MAX: what libvirt itself puts into one stream packet. */
export const STREAM_PAYLOAD_MAX_BYTES = 262_120;
const FIRST_BUFFER_BYTES = 65_536;

/** virNetMessageHeader. `procedure` and `serial` of a stream packet or reply are those of its call. */
export interface MessageHeader {
  readonly program: number;
  readonly version: number;
  readonly procedure: number;
  readonly type: number;
  readonly serial: number;
  readonly status: number;
}

export interface Frame {
  readonly header: MessageHeader;
  readonly payload: Uint8Array;
}

/** One message as bytes. @throws RangeError for a payload that no peer would accept. */
export function encodeFrame(header: MessageHeader, payload: Uint8Array): Uint8Array {
  const frame = allocateFrame(payload.length);
  frame.set(payload, FRAME_PREFIX_BYTES);
  return sealFrame(header, frame);
}

/**
 * Memory for one message, whose payload goes behind FRAME_PREFIX_BYTES. For bulk data, which are written where they will
 * be sent from. @throws RangeError as encodeFrame().
 */
export function allocateFrame(payloadBytes: number): Buffer {
  const length = FRAME_PREFIX_BYTES + payloadBytes;
  if (length > FRAME_MAX_BYTES) {
    throw new RangeError(`a message of ${length} bytes is over libvirt's limit of ${FRAME_MAX_BYTES}`);
  }
  return Buffer.allocUnsafe(length);
}

/** Writes length and header in front of the payload that stands in the frame, which is returned. */
export function sealFrame(header: MessageHeader, frame: Buffer): Buffer {
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(header.program, 4);
  frame.writeUInt32BE(header.version, 8);
  frame.writeInt32BE(header.procedure, 12);
  frame.writeInt32BE(header.type, 16);
  frame.writeUInt32BE(header.serial, 20);
  frame.writeInt32BE(header.status, 24);
  return frame;
}

/**
 * Turns chunks of any size into frames. Not restartable: after a bad length there is no way to find the next frame, so
 * every further push throws the same error.
 */
export class FrameDecoder {
  /** Bytes of an incomplete frame; grows by doubling, never past the frame's own length. */
  #buffer: Buffer = Buffer.alloc(0);
  #filled = 0;
  #failure: LibvirtTransportError | undefined;

  /** Bytes that wait for the rest of their frame. */
  get pendingBytes(): number {
    return this.#filled;
  }

  /**
   * Hands over each frame that this chunk completes, in order; those before a bad length are handed over too, so that
   * the outcome does not depend on how the bytes were cut. Payloads may be views of `chunk`: do not reuse its memory.
   * @throws LibvirtTransportError for a length that cannot be one, and whatever `onFrame` throws.
   */
  push(chunk: Uint8Array, onFrame: (frame: Frame) => void): void {
    if (this.#failure) {
      throw this.#failure;
    }
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    while (rest.length > 0) {
      if (this.#filled === 0 && rest.length >= LENGTH_BYTES && rest.length >= this.#frameLength(rest)) {
        const length = this.#frameLength(rest);
        onFrame(toFrame(rest.subarray(0, length)));
        rest = rest.subarray(length);
      } else {
        rest = this.#collect(rest, onFrame);
      }
    }
  }

  /** Moves bytes of a split frame into the buffer and returns what was not needed. */
  #collect(bytes: Buffer, onFrame: (frame: Frame) => void): Buffer {
    const wanted = this.#filled < LENGTH_BYTES ? LENGTH_BYTES : this.#frameLength(this.#buffer);
    const taken = Math.min(wanted - this.#filled, bytes.length);
    this.#reserve(this.#filled + taken, wanted);
    this.#buffer.set(bytes.subarray(0, taken), this.#filled);
    this.#filled += taken;
    if (this.#filled === LENGTH_BYTES) {
      // Refused now, not when more bytes come: they might never.
      this.#frameLength(this.#buffer);
    } else if (this.#filled === wanted && wanted > LENGTH_BYTES) {
      const frame = toFrame(this.#buffer.subarray(0, wanted));
      // The payload is a view of this buffer: the next split frame gets memory of its own.
      this.#buffer = Buffer.alloc(0);
      this.#filled = 0;
      onFrame(frame);
    }
    return bytes.subarray(taken);
  }

  #reserve(needed: number, frameLength: number): void {
    if (needed <= this.#buffer.length) {
      return;
    }
    const doubled = Math.max(needed, this.#buffer.length * 2, Math.min(FIRST_BUFFER_BYTES, frameLength));
    const larger = Buffer.allocUnsafe(frameLength > LENGTH_BYTES ? Math.min(doubled, frameLength) : doubled);
    larger.set(this.#buffer.subarray(0, this.#filled));
    this.#buffer = larger;
  }

  #frameLength(bytes: Buffer): number {
    const length = bytes.readUInt32BE(0);
    if (length < FRAME_PREFIX_BYTES || length > FRAME_MAX_BYTES) {
      // Shown because it is often the first word of a message from a shell or a proxy in between.
      const begins = JSON.stringify(bytes.toString('latin1', 0, LENGTH_BYTES));
      this.#failure = new LibvirtTransportError(`not libvirt's RPC: a message that begins with ${begins}`);
      throw this.#failure;
    }
    return length;
  }
}

function toFrame(bytes: Buffer): Frame {
  return {
    header: {
      program: bytes.readUInt32BE(4),
      version: bytes.readUInt32BE(8),
      procedure: bytes.readInt32BE(12),
      type: bytes.readInt32BE(16),
      serial: bytes.readUInt32BE(20),
      status: bytes.readInt32BE(24),
    },
    payload: bytes.subarray(FRAME_PREFIX_BYTES),
  };
}
