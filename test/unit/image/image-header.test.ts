import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ImageError } from '../../../lib/image/image-error.ts';
import { HEAD_BYTES, inspectHeader } from '../../../lib/image/image-header.ts';
import type { ImageFormat } from '../../../lib/image/image-source.ts';
import { buildQcow2Disk, buildRawDisk } from '../../contract/qcow2-disk.ts';

const MIB = 1024 ** 2;
const disk = buildQcow2Disk({ virtualSizeBytes: 64 * MIB, dataClusters: 2, fill: 1 });

/** A valid disk with one thing changed. */
function altered(change: (head: Buffer) => void): Buffer {
  const copy = Buffer.from(disk);
  change(copy);
  return copy;
}

function inspect(image: Buffer, format: ImageFormat = 'qcow2') {
  return inspectHeader(image.subarray(0, HEAD_BYTES), format, image.length);
}

function reasonFor(image: Buffer, format: ImageFormat = 'qcow2'): string {
  try {
    inspect(image, format);
  } catch (error) {
    if (error instanceof ImageError) return error.reason;
    throw error;
  }
  return 'accepted';
}

describe('a disk that is what it is declared to be', () => {
  it('tells its virtual size', () => {
    expect(inspect(disk)).toEqual({ virtualSizeBytes: 64 * MIB });
    expect(inspect(buildRawDisk(5 * MIB), 'raw')).toEqual({ virtualSizeBytes: 5 * MIB });
  });

  it('may be of version 2, whose header ends at byte 72', () => {
    const image = altered((head) => {
      head.writeUInt32BE(2, 4);
      head.fill(0, 72, 112);
    });

    expect(reasonFor(image)).toBe('accepted');
  });

  it('may use zstd compression and extended L2 entries, and may not have been closed cleanly', () => {
    const image = altered((head) => {
      head.writeBigUInt64BE(1n | 8n | 16n, 72);
      head.writeUInt32BE(112, 100);
      head.writeUInt8(1, 104);
    });

    expect(reasonFor(image)).toBe('accepted');
  });

  it('may have header extensions that change nothing', () => {
    const image = altered((head) => {
      head.writeUInt32BE(0x6803f857, 104);
      head.writeUInt32BE(144, 108);
    });

    expect(reasonFor(image)).toBe('accepted');
  });
});

describe('IM-06: a file that is not the declared format', () => {
  it.each([
    ['xz', 'fd377a585a00'],
    ['gzip', '1f8b08'],
    ['zstd', '28b52ffd'],
    ['bzip2', '425a6839'],
    ['zip', '504b0304'],
    ['VMDK', '4b444d56'],
    ['VHDX', '7668647866696c65'],
  ])('is refused when it begins like %s, whatever is declared', (_, magic) => {
    const image = buildRawDisk(MIB);
    image.write(magic, 0, 'hex');

    expect([reasonFor(image, 'qcow2'), reasonFor(image, 'raw')]).toEqual(['format', 'format']);
  });

  it.each([
    ['an HTML page', '<!DOCTYPE html>\n<html><body>Not found</body></html>\n'],
    ['an XML error', '<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>\n'],
    ['a JSON answer', '{"message":"not found"}\n'],
    [
      'a pointer of a large-file store',
      'version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12\n',
    ],
  ])('is refused when it is %s, however long', (_, text) => {
    for (const length of [text.length, 100_000]) {
      const image = Buffer.from(text.repeat(Math.ceil(length / text.length)));

      expect([reasonFor(image, 'qcow2'), reasonFor(image, 'raw')]).toEqual(['format', 'format']);
    }
  });

  it('is refused when a raw disk is declared qcow2 and the other way round', () => {
    expect(reasonFor(buildRawDisk(MIB), 'qcow2')).toBe('format');
    expect(reasonFor(disk, 'raw')).toBe('format');
  });

  it('is refused when it is shorter than a sector', () => {
    expect(reasonFor(Buffer.alloc(511, 0xff), 'raw')).toBe('format');
    expect(reasonFor(Buffer.alloc(0), 'raw')).toBe('format');
  });

  it.each([0, 1, 4, 0xffffffff])('is refused when its qcow2 version is %i', (version) => {
    expect(reasonFor(altered((head) => head.writeUInt32BE(version, 4)))).toBe('format');
  });

  it('is refused when nobody could read it: encrypted, corrupt, of no size or beyond any filesystem', () => {
    expect(reasonFor(altered((head) => head.writeUInt32BE(2, 32)))).toBe('format');
    expect(reasonFor(altered((head) => head.writeBigUInt64BE(2n, 72)))).toBe('format');
    expect(reasonFor(altered((head) => head.writeBigUInt64BE(0n, 24)))).toBe('format');
    const huge = altered((head) => {
      head.writeBigUInt64BE(2n ** 44n, 24);
      head.writeUInt32BE(2 ** 15, 36);
    });
    expect(reasonFor(huge)).toBe('format');
  });
});

describe('IM-07: a qcow2 header that would lead the host elsewhere', () => {
  it('is refused for a backing file', () => {
    const image = altered((head) => {
      head.writeBigUInt64BE(112n, 8);
      head.writeUInt32BE(11, 16);
      head.write('/etc/passwd', 112);
    });

    expect(() => inspect(image)).toThrow(/backing file/);
    expect(reasonFor(image)).toBe('unsafe-header');
  });

  it('is refused for a backing file in a version 2 header too', () => {
    const image = altered((head) => {
      head.writeUInt32BE(2, 4);
      head.writeBigUInt64BE(80n, 8);
    });

    expect(reasonFor(image)).toBe('unsafe-header');
  });

  it('is refused for an external data file, by feature bit or by name', () => {
    const byBit = altered((head) => head.writeBigUInt64BE(4n, 72));
    const byName = altered((head) => {
      head.writeUInt32BE(0x44415441, 104);
      head.writeUInt32BE(11, 108);
      head.write('/etc/shadow', 112);
    });

    expect(() => inspect(byBit)).toThrow(/external file/);
    expect([reasonFor(byBit), reasonFor(byName)]).toEqual(['unsafe-header', 'unsafe-header']);
  });

  it('is refused for every feature bit that is not known', () => {
    for (let bit = 5n; bit < 64n; bit += 1n) {
      expect(reasonFor(altered((head) => head.writeBigUInt64BE(1n << bit, 72)))).toBe('unsafe-header');
    }
  });

  it('is refused when an extension points past the head, or the list has no end', () => {
    const tooLong = altered((head) => {
      head.writeUInt32BE(0x6803f857, 104);
      head.writeUInt32BE(0xfffffff0, 108);
    });
    const endless = altered((head) => {
      head.writeUInt32BE(21, 20);
      for (let at = 104; at + 8 <= HEAD_BYTES; at += 8) head.writeUInt32BE(0x6803f857, at);
    });

    expect([reasonFor(tooLong), reasonFor(endless)]).toEqual(['unsafe-header', 'unsafe-header']);
  });

  it.each([
    ['L1 table', (head: Buffer) => head.writeBigUInt64BE(2n ** 40n, 40)],
    ['L1 table by its length', (head: Buffer) => head.writeUInt32BE(2 ** 21, 36)],
    ['L1 table off its cluster', (head: Buffer) => head.writeBigUInt64BE(3n * 65536n + 8n, 40)],
    ['L1 table for the virtual size', (head: Buffer) => head.writeBigUInt64BE(2n ** 40n, 24)],
    ['reference count table', (head: Buffer) => head.writeBigUInt64BE(2n ** 63n, 48)],
    ['reference count table by its length', (head: Buffer) => head.writeUInt32BE(2 ** 31, 56)],
    [
      'snapshot table',
      (head: Buffer) => {
        head.writeUInt32BE(1, 60);
        head.writeBigUInt64BE(2n ** 32n, 64);
      },
    ],
    ['cluster size, too small', (head: Buffer) => head.writeUInt32BE(8, 20)],
    ['cluster size, too large', (head: Buffer) => head.writeUInt32BE(22, 20)],
    ['header length', (head: Buffer) => head.writeUInt32BE(0x7ffffff8, 100)],
    [
      'compression type',
      (head: Buffer) => {
        head.writeUInt32BE(112, 100);
        head.writeUInt8(7, 104);
      },
    ],
  ])('is refused for its %s', (_, change) => {
    expect(reasonFor(altered(change))).toBe('unsafe-header');
  });

  it('is decided for any header at all: accepted or an ImageError, never another error', () => {
    const field = fc.record({ at: fc.integer({ min: 4, max: 160 }), byte: fc.integer({ min: 0, max: 255 }) });

    fc.assert(
      fc.property(fc.array(field, { maxLength: 12 }), fc.integer({ min: 0, max: 600 }), (fields, keep) => {
        const image = altered((head) => {
          for (const { at, byte } of fields) head.writeUInt8(byte, at);
        });
        const cut = keep < 512 ? image : image.subarray(0, keep);
        expect(['accepted', 'format', 'unsafe-header']).toContain(reasonFor(cut));
      }),
      { numRuns: 1_000 },
    );
  });
});
