/** Frames near to real ones: what a broken or hostile peer may send. The same for the same seed on every machine. */
import { FRAME_MAX_BYTES, FRAME_PREFIX_BYTES } from '../../../lib/libvirt/framing.ts';

/** A whole number from 0 to below the bound. */
export type Random = (below: number) => number;

/** mulberry32. */
export function randomOf(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export const pick = <T>(items: readonly T[], random: Random): T => {
  const item = items[random(items.length)];
  if (item === undefined) throw new RangeError('nothing to pick from');
  return item;
};

const EDGE_BYTES = [0, 1, 0x7f, 0x80, 0xff];
const EDGE_WORDS = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/**
 * One to three changes behind the length word, mostly in the payload: flipped bits, edge values, words, and now and then a
 * stretch that is removed or doubled. The length word then says how long the frame really is, so that the peer reads what
 * follows it as well.
 */
export function mutate(frame: Uint8Array, random: Random): Buffer {
  let bytes = Buffer.from(frame);
  for (let times = 1 + random(3); times > 0; times -= 1) {
    const at = anyPlace(bytes, random);
    const kind = random(10);
    if (kind < 3) {
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
    } else if (kind < 5) {
      bytes[at] = pick(EDGE_BYTES, random);
    } else if (kind < 8) {
      writePayloadWord(bytes, random);
    } else {
      const after = kind === 8 ? at + 1 + random(8) : Math.max(4, at - random(12));
      bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(after)]);
    }
    if (bytes.length < FRAME_PREFIX_BYTES) {
      bytes = Buffer.from(frame);
    }
  }
  return withLength(bytes, bytes.length);
}

/** A changed header is noticed at once: one place in eight is enough for it, or all where there is nothing else. */
function anyPlace(bytes: Uint8Array, random: Random): number {
  const from = random(8) === 0 || bytes.length === FRAME_PREFIX_BYTES ? 4 : FRAME_PREFIX_BYTES;
  return from + random(bytes.length - from);
}

/** Lengths in XDR stand on word boundaries. */
function writePayloadWord(bytes: Buffer, random: Random): void {
  const words = Math.floor((bytes.length - FRAME_PREFIX_BYTES) / 4);
  if (words > 0) {
    const value = random(2) === 0 ? pick(EDGE_WORDS, random) : random(64);
    bytes.writeUInt32BE(value, FRAME_PREFIX_BYTES + 4 * random(words));
  }
}

/** The frame with another length word than its own: too small, too big, or one that more bytes would have to follow. */
export function lieAboutLength(frame: Uint8Array, random: Random): Buffer {
  const lies = [
    0,
    FRAME_PREFIX_BYTES - 1,
    frame.length + 4,
    FRAME_MAX_BYTES,
    FRAME_MAX_BYTES + 1,
    0xffff_ffff,
  ];
  return withLength(Buffer.from(frame), pick(lies, random));
}

/** Whether a peer must take the frame's length for a fault rather than wait for the rest. */
export const hasImpossibleLength = (frame: Buffer): boolean => {
  const length = frame.readUInt32BE(0);
  return length < FRAME_PREFIX_BYTES || length > FRAME_MAX_BYTES;
};

export const withSerial = (frame: Uint8Array, serial: number): Buffer => {
  const bytes = Buffer.from(frame);
  bytes.writeUInt32BE(serial, 20);
  return bytes;
};

/** The first `length` bytes, as a frame of that length. */
export const truncate = (frame: Uint8Array, length: number): Buffer =>
  withLength(Buffer.from(frame.subarray(0, length)), length);

function withLength(bytes: Buffer, length: number): Buffer {
  bytes.writeUInt32BE(length, 0);
  return bytes;
}

/** How many frames a suite sends at least; `LIBVIRT_FUZZ_ROUNDS` asks for another number. */
export const framesWanted = (usual: number): number => Number(process.env['LIBVIRT_FUZZ_ROUNDS'] ?? usual);

/** The first of the seeds; a connection that failed is repeated with `LIBVIRT_FUZZ_SEED` and `LIBVIRT_FUZZ_ROUNDS=1`. */
export const firstSeed = (): number => Number(process.env['LIBVIRT_FUZZ_SEED'] ?? 1);
