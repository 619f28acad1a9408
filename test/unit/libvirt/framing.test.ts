import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LibvirtTransportError } from '../../../lib/libvirt/errors.ts';
import {
  encodeFrame,
  FRAME_MAX_BYTES,
  FRAME_PREFIX_BYTES,
  type Frame,
  FrameDecoder,
} from '../../../lib/libvirt/framing.ts';

const word = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const signedWord = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const frame: fc.Arbitrary<Frame> = fc.record({
  header: fc.record({
    program: word,
    version: word,
    procedure: signedWord,
    type: signedWord,
    serial: word,
    status: signedWord,
  }),
  payload: fc.uint8Array({ maxLength: 60 }),
});

const lengthWord = (length: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
};

/** What a decoder makes of these chunks: frames in text, and the error that ended it. */
function decode(chunks: Iterable<Uint8Array>): { readonly frames: string[]; readonly error: string | null } {
  const decoder = new FrameDecoder();
  const frames: string[] = [];
  try {
    for (const chunk of chunks) {
      decoder.push(chunk, ({ header, payload }) =>
        frames.push(JSON.stringify([header, Buffer.from(payload).toString('hex')])),
      );
    }
    return { frames, error: null };
  } catch (error) {
    return { frames, error: String(error) };
  }
}

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let offset = 0;
  for (let i = 0; offset < bytes.length; i += 1) {
    const size = sizes[i % sizes.length] ?? 1;
    chunks.push(bytes.subarray(offset, offset + size));
    offset += size;
  }
  return chunks;
}

describe('the frame decoder', () => {
  it('gives back what was encoded, however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        (frames, sizes) => {
          const bytes = Buffer.concat(frames.map(({ header, payload }) => encodeFrame(header, payload)));
          const expected = frames.map(({ header, payload }) =>
            JSON.stringify([header, Buffer.from(payload).toString('hex')]),
          );

          expect(decode([bytes])).toEqual({ frames: expected, error: null });
          expect(decode(cut(bytes, [1]))).toEqual({ frames: expected, error: null });
          expect(decode(cut(bytes, sizes))).toEqual({ frames: expected, error: null });
        },
      ),
    );
  });

  it('comes to the same frames and the same error for any bytes, however they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 3 }),
        fc.uint8Array({ maxLength: 40 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        (frames, junk, sizes) => {
          const good = frames.map(({ header, payload }) => encodeFrame(header, payload));
          const bytes = Buffer.concat([...good, junk]);

          const atOnce = decode([bytes]);

          expect(decode(cut(bytes, [1]))).toEqual(atOnce);
          expect(decode(cut(bytes, sizes))).toEqual(atOnce);
        },
      ),
    );
  });

  it.each([0, 4, FRAME_PREFIX_BYTES - 1, FRAME_MAX_BYTES + 1, 0xffff_ffff])(
    'refuses a length of %i as soon as it is there, and everything after it',
    (length) => {
      const decoder = new FrameDecoder();
      const ignore = (): void => undefined;

      expect(() => decoder.push(lengthWord(length), ignore)).toThrow(LibvirtTransportError);
      expect(() => decoder.push(new Uint8Array(100), ignore)).toThrow(LibvirtTransportError);
    },
  );

  it('hands nothing over after a bad length, whatever follows it', () => {
    const decoder = new FrameDecoder();
    const header = { program: 1, version: 1, procedure: 1, type: 1, serial: 1, status: 0 };
    const frames: Frame[] = [];
    expect(() => decoder.push(lengthWord(5), () => undefined)).toThrow(/begins with/);

    expect(() => decoder.push(encodeFrame(header, Buffer.from('good')), (each) => frames.push(each))).toThrow(
      /begins with "\\u0000\\u0000\\u0000\\u0005"/,
    );
    expect(frames).toEqual([]);
  });

  it('has the limits of libvirt: 32 MiB and the length word, 28 bytes before a payload', () => {
    expect([FRAME_MAX_BYTES, FRAME_PREFIX_BYTES]).toEqual([33_554_436, 28]);
  });

  it('takes the largest message that libvirt sends', () => {
    const payload = new Uint8Array(FRAME_MAX_BYTES - FRAME_PREFIX_BYTES);
    const header = { program: 1, version: 1, procedure: 1, type: 1, serial: 1, status: 0 };
    const bytes = encodeFrame(header, payload);
    let length = 0;

    new FrameDecoder().push(bytes, (decoded) => {
      length = decoded.payload.length;
    });

    expect(length).toBe(payload.length);
    expect(() => encodeFrame(header, new Uint8Array(payload.length + 1))).toThrow(RangeError);
  });

  it.each([100, 70_000])('does not give memory for a length of which %i bytes came', (bytes) => {
    const before = process.memoryUsage().arrayBuffers;

    const decoders = Array.from({ length: 50 }, () => {
      const decoder = new FrameDecoder();
      decoder.push(Buffer.concat([lengthWord(FRAME_MAX_BYTES), Buffer.alloc(bytes)]), () => undefined);
      return decoder;
    });

    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(FRAME_MAX_BYTES);
    expect(decoders.map((decoder) => decoder.pendingBytes)).toEqual(decoders.map(() => bytes + 4));
  });

  it('copies a long frame a few times, not once for every chunk of it', () => {
    const payload = Buffer.alloc(16 * 1_048_576);
    const bytes = encodeFrame(
      { program: 1, version: 1, procedure: 1, type: 1, serial: 1, status: 0 },
      payload,
    );
    const chunks = cut(bytes, [4_096]);
    const before = process.threadCpuUsage();

    const lengths = decodeLengths(chunks);

    // 4,096 copies of 8 MiB on average would take several seconds. Of the processor, not of the clock: a busy machine
    // takes a second over what is meant to be quick.
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(1_000);
    expect(lengths).toEqual([payload.length]);
  });
});

/** What a decoder makes of these chunks, by the payloads' lengths. */
function decodeLengths(chunks: Iterable<Uint8Array>): number[] {
  const decoder = new FrameDecoder();
  const lengths: number[] = [];
  for (const chunk of chunks) decoder.push(chunk, ({ payload }) => lengths.push(payload.length));
  return lengths;
}
