import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { buildIso9660 } from '../../../lib/seed/iso9660.ts';
import { MIN_SCRUBBED_BYTES, scrubbedUserData } from '../../../lib/seed/scrubbed-user-data.ts';
import { buildSeed } from '../../../lib/seed/seed.ts';
import { findOnSeed, SEED_DIRECTORY_BYTES, SeedLayoutError } from '../../../lib/seed/seed-extent.ts';

const NAMES = ['user-data', 'meta-data', 'vendor-data', 'network-config'] as const;

const seedOf = (
  userData: Uint8Array,
  more: { networkConfig?: unknown } = { networkConfig: { version: 2 } },
): Buffer =>
  Buffer.from(
    buildSeed({
      instanceId: 'vm-1-u',
      hostname: 'vm-1',
      userData,
      vendorData: Buffer.from('#cloud-config\n{}\n'),
      ...more,
      mac: '02:00:00:00:00:01',
      sshAuthorizedKeys: [],
      createdAt: new Date(1_769_860_800_000),
    }),
  );

const find = (seed: Buffer, name: (typeof NAMES)[number] = 'user-data', volumeBytes = seed.length) =>
  findOnSeed(seed.subarray(0, SEED_DIRECTORY_BYTES), volumeBytes, name);

describe('a file on a seed', () => {
  it('is found by the beginning of the volume alone, whatever its length', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400_000 }), (bytes) => {
        const seed = seedOf(Buffer.alloc(bytes, 'u'));

        const { offset, length } = find(seed);

        expect(length).toBe(bytes);
        expect(seed.subarray(offset, offset + length).equals(Buffer.alloc(bytes, 'u'))).toBe(true);
        expect(seed.subarray(0, offset).includes('uuu')).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  it.each(['plain', 'with a network'])('is found without a byte of any file: %s', (kind) => {
    const userData = Buffer.alloc(100, 'u');
    const seed = kind === 'plain' ? seedOf(userData, {}) : seedOf(userData);

    const first = Math.min(
      ...NAMES.filter((name) => kind !== 'plain' || name !== 'network-config').map(
        (name) => find(seed, name).offset,
      ),
    );

    expect(first).toBe(SEED_DIRECTORY_BYTES);
  });

  it('is refused when its directory reaches beyond the beginning', () => {
    const names = Array.from({ length: 20 }, (_, index) => `name-${index}`);
    const files = ['user-data', ...names].map((name) => ({ name, content: Buffer.alloc(20) }));
    const seed = Buffer.from(buildIso9660(files, { volumeId: 'cidata', time: new Date(0) }));

    expect(() => find(seed)).toThrow(new SeedLayoutError('the seed is cut off'));
  });

  it('is each one, and no two share a byte', () => {
    const seed = seedOf(Buffer.alloc(5000, 'u'));

    const extents = NAMES.map((name) => find(seed, name)).sort((a, b) => a.offset - b.offset);

    for (const [index, { offset }] of extents.entries()) {
      const before = extents[index - 1];
      expect(offset).toBeGreaterThanOrEqual(before === undefined ? 0 : before.offset + before.length);
    }
  });

  it('is not looked for on a volume of another size, label or maker', () => {
    const seed = seedOf(Buffer.alloc(100, 'u'));
    const other = Buffer.from(
      buildIso9660([{ name: 'user-data', content: Buffer.alloc(20) }], {
        volumeId: 'other',
        time: new Date(0),
      }),
    );
    const unmarked = Buffer.from(seed);
    unmarked.fill(' ', 16 * 2048 + 574, 16 * 2048 + 574 + 128);

    expect(() => find(seed, 'user-data', seed.length + 2048)).toThrow(SeedLayoutError);
    expect(() => find(other)).toThrow(SeedLayoutError);
    expect(() => find(unmarked)).toThrow(SeedLayoutError);
    expect(() => find(Buffer.alloc(seed.length))).toThrow(SeedLayoutError);
    expect(() => find(seed.subarray(0, 30_000))).toThrow(SeedLayoutError);
  });

  it('is refused rather than found elsewhere when any byte of descriptors and directories is another', () => {
    const seed = seedOf(Buffer.alloc(3000, 'u'));
    const right = find(seed);

    fc.assert(
      fc.property(
        fc.integer({ min: 16 * 2048, max: right.offset - 1 }),
        fc.integer({ min: 1, max: 255 }),
        (at, change) => {
          const damaged = Buffer.from(seed);
          damaged[at] = (damaged[at] ?? 0) ^ change;
          let found: unknown;
          try {
            found = find(damaged);
          } catch (error) {
            expect(error).toBeInstanceOf(SeedLayoutError);
            return;
          }
          expect(found).toEqual(right);
        },
      ),
      { numRuns: 20_000 },
    );
  });
});

describe('what stands in the place of user-data', () => {
  it('has its length and is a cloud-config without content', () => {
    expect(scrubbedUserData(MIN_SCRUBBED_BYTES).toString()).toBe('#cloud-config\n{}\n');
    expect(scrubbedUserData(300_001).length).toBe(300_001);
    expect(scrubbedUserData(40).toString()).toMatch(/^#cloud-config\n\{\}\n+$/);
    expect(() => scrubbedUserData(MIN_SCRUBBED_BYTES - 1)).toThrow(RangeError);
  });
});
