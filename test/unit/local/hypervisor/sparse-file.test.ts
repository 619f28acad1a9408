import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SparseFile } from '../../../../infra/local/hypervisor/state/sparse-file.ts';

describe('a sparse file', () => {
  it('holds what a plain buffer would hold, whatever is written and cut off', () => {
    const step = fc.record({
      offset: fc.integer({ min: 0, max: 300_000 }),
      length: fc.integer({ min: 0, max: 150_000 }),
      fill: fc.integer({ min: 0, max: 2 }),
      truncate: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const file = new SparseFile();
        let plain = Buffer.alloc(0);
        for (const { offset, length, fill, truncate } of steps) {
          const size = truncate ? offset : Math.max(plain.length, offset + length);
          plain = Buffer.concat([plain.subarray(0, size), Buffer.alloc(Math.max(0, size - plain.length))]);
          if (truncate) {
            file.truncate(offset);
          } else {
            file.write(offset, Buffer.alloc(length, fill));
            plain.fill(fill, offset, offset + length);
          }
        }
        expect(file.sizeBytes).toBe(plain.length);
        expect(Buffer.compare(file.read(0, plain.length), plain)).toBe(0);
        expect(
          Buffer.compare(Buffer.concat([...file.chunks(1000, 70_000)]), plain.subarray(1000, 71_000)),
        ).toBe(0);
        expect(file.sha256()).toBe(createHash('sha256').update(plain).digest('hex'));
      }),
      { numRuns: 60 },
    );
  });

  it('takes no room for zeros, however many', () => {
    const file = new SparseFile();
    file.truncate(2 ** 40);
    file.write(2 ** 39, new Uint8Array(1_000_000));

    expect(file.sizeBytes).toBe(2 ** 40);
    expect(file.allocatedBytes).toBe(0);
    file.write(5, Uint8Array.of(1));
    expect(file.allocatedBytes).toBe(65_536);
  });
});
