import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isoIdentifiers } from '../../../lib/seed/iso-directory.ts';
import { buildIso9660, type IsoFile } from '../../../lib/seed/iso9660.ts';
import { type DirectoryEntry, readImage } from './iso-reader.ts';

const TIME = new Date('2026-01-31T12:34:56.780Z');
const SIZES = [0, 1, 2047, 2048, 2049, 4096, 1024 * 1024];

const content = (bytes: number, salt: number) =>
  Buffer.from(Array.from({ length: bytes }, (_, i) => (i * 31 + salt) % 251));
const files: readonly IsoFile[] = [
  { name: 'user-data', content: content(2049, 1) },
  { name: 'meta-data', content: content(48, 2) },
  { name: 'vendor-data', content: content(0, 3) },
  { name: 'network-config', content: content(2048, 4) },
];
const sized: readonly IsoFile[] = SIZES.map((bytes, index) => ({
  name: `file-of-${bytes}`,
  content: content(bytes, index),
}));

const build = (of: readonly IsoFile[] = files, volumeId = 'cidata') =>
  Buffer.from(buildIso9660(of, { volumeId, time: TIME }));

function extentOf(image: Buffer, entry: DirectoryEntry): Buffer {
  return image.subarray(entry.sector * 2048, entry.sector * 2048 + entry.bytes);
}

describe('buildIso9660', () => {
  it('SD-05: gives every file its exact name under Rock Ridge and under Joliet', () => {
    const { primary, joliet } = readImage(build());
    const names = files.map((file) => file.name).toSorted();

    expect(primary.files.map((file) => file.rockRidgeName).toSorted()).toEqual(names);
    expect(joliet.files.map((file) => file.name).toSorted()).toEqual(names);
    expect(primary.files.map((file) => file.name)).toEqual([
      'META_DAT.;1',
      'NETWORK_.;1',
      'USER_DAT.;1',
      'VENDOR_D.;1',
    ]);
  });

  it('SD-05: writes records of even length whose fields agree in both byte orders', () => {
    const { primary, joliet } = readImage(build());

    // The reader throws where two byte orders disagree; what is left to see is that it saw them all.
    for (const tree of [primary, joliet]) {
      expect(tree.files).toHaveLength(files.length);
      for (const entry of [tree.self, tree.parent, ...tree.files]) {
        expect(entry.recordBytes % 2).toBe(0);
        expect(entry.systemUseOffset % 2).toBe(0);
      }
    }
  });

  it.each(['cidata', 'CIDATA', 'x'])(
    'writes the label %s as given, filled up with spaces in both descriptors',
    (label) => {
      const image = build(files, label);

      expect(image.subarray(16 * 2048 + 40, 16 * 2048 + 72).toString('latin1')).toBe(label.padEnd(32));
      expect(readImage(image).joliet.volumeId).toBe(label);
    },
  );

  it('marks the Joliet descriptor as UCS-2 level 3 and ends the descriptors', () => {
    const image = build();

    expect(image.subarray(17 * 2048 + 88, 17 * 2048 + 91).toString('latin1')).toBe('%/E');
    expect(image.subarray(18 * 2048, 18 * 2048 + 7)).toEqual(Buffer.from('\xffCD001\x01', 'latin1'));
  });

  it('says its own size, in sectors', () => {
    const image = build(sized);

    expect(image.length).toBe(readImage(image).primary.volumeSectors * 2048);
    expect(readImage(image).joliet.volumeSectors).toBe(readImage(image).primary.volumeSectors);
  });

  it('points all four path tables at the root they belong to', () => {
    const { primary, joliet } = readImage(build());

    expect(primary.pathTableRoots).toEqual([primary.self.sector, primary.self.sector]);
    expect(joliet.pathTableRoots).toEqual([joliet.self.sector, joliet.self.sector]);
    expect(primary.self.sector).not.toBe(joliet.self.sector);
    expect(primary.parent.sector).toBe(primary.self.sector);
  });

  it('SD-04: places files of every size apart from one another and keeps their bytes', () => {
    const image = build(sized);
    const { primary, joliet } = readImage(image);

    const taken = new Set<number>();
    for (const file of sized) {
      const entry = primary.files.find((each) => each.rockRidgeName === file.name);
      const twin = joliet.files.find((each) => each.name === file.name);
      expect(entry).toBeDefined();
      if (entry === undefined) continue;
      expect(extentOf(image, entry).equals(file.content)).toBe(true);
      expect([twin?.sector, twin?.bytes]).toEqual([entry.sector, entry.bytes]);
      for (
        let sector = entry.sector;
        sector < entry.sector + Math.max(1, Math.ceil(entry.bytes / 2048));
        sector++
      ) {
        expect(taken).not.toContain(sector);
        taken.add(sector);
      }
    }
    expect(Math.min(...taken)).toBeGreaterThan(joliet.self.sector);
  });

  it('sorts each directory by its own names', () => {
    const { primary, joliet } = readImage(build());

    for (const names of [primary.files.map(({ name }) => name), joliet.files.map(({ name }) => name)]) {
      expect(names).toEqual(names.toSorted());
    }
  });

  it('lets a directory grow over several sectors without a record across their border', () => {
    const many = Array.from({ length: 60 }, (_, index) => ({
      name: `a-file-with-a-long-name-${String(index).padStart(3, '0')}`,
      content: content(index, index),
    }));
    const { primary, joliet } = readImage(build(many));

    expect(primary.self.bytes).toBeGreaterThan(2048);
    expect(primary.files.map((file) => file.rockRidgeName).toSorted()).toEqual(many.map((file) => file.name));
    expect(joliet.files.map((file) => file.name)).toEqual(many.map((file) => file.name));
  });

  it('gives names that shorten to the same one a number', () => {
    expect(isoIdentifiers(['user-data', 'user-data2', 'user_data'])).toEqual([
      'USER_DAT.;1',
      'USER_DA1.;1',
      'USER_DA2.;1',
    ]);
  });

  it('gives the same bytes for the same input, and keeps them when only the host’s clock moves', () => {
    expect(build()).toEqual(build());
    expect(build()).not.toEqual(Buffer.from(buildIso9660(files, { volumeId: 'cidata', time: new Date(0) })));
  });

  it('shows files to root only', () => {
    expect(readImage(build()).primary.files.map((file) => file.mode)).toEqual(files.map(() => 0o100400));
  });

  it.each([
    [[{ name: 'a/b', content: content(1, 0) }], 'cidata'],
    [[{ name: '', content: content(1, 0) }], 'cidata'],
    [[{ name: 'a b', content: content(1, 0) }], 'cidata'],
    [[{ name: 'é', content: content(1, 0) }], 'cidata'],
    [[{ name: 'x'.repeat(65), content: content(1, 0) }], 'cidata'],
    [
      [
        { name: 'a', content: content(1, 0) },
        { name: 'a', content: content(1, 0) },
      ],
      'cidata',
    ],
    [[], ''],
    [[], 'x'.repeat(17)],
    [[], 'ci data'],
  ])('refuses what the format cannot hold (%#)', (of, volumeId) => {
    expect(() => build(of, volumeId)).toThrow(RangeError);
  });

  it.each(['1899-12-31T23:59:59Z', '2156-01-01T00:00:00Z', 'no date'])('refuses the time %s', (time) => {
    expect(() => buildIso9660(files, { volumeId: 'cidata', time: new Date(time) })).toThrow(RangeError);
  });
});

const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const missing = ['isoinfo', 'xorriso', 'blkid'].filter((program) => !has(program));
if (missing.length > 0) {
  console.warn(`skipped: some ISO 9660 tests, because ${missing.join(', ')} is not installed`);
}

describe('other readers agree', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kvmfn-iso-'));
  const seed = join(folder, 'seed.iso');
  const sizes = join(folder, 'sizes.iso');
  beforeAll(() => {
    writeFileSync(seed, build());
    writeFileSync(sizes, build(sized));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const run = (program: string, ...args: string[]) => spawnSync(program, args, { maxBuffer: 8 << 20 });

  it.skipIf(!has('isoinfo')).each(['-R', '-J'])('SD-05: isoinfo %s lists the exact names', (extension) => {
    const listing = run('isoinfo', '-f', extension, '-i', seed).stdout.toString();

    expect(listing.trim().split('\n').toSorted()).toEqual(files.map((file) => `/${file.name}`).toSorted());
  });

  it.skipIf(!has('isoinfo')).each(SIZES)('SD-04: isoinfo reads a file of %i bytes', (bytes) => {
    const read = run('isoinfo', '-R', '-x', `/file-of-${bytes}`, '-i', sizes).stdout;

    expect(read.equals(content(bytes, SIZES.indexOf(bytes)))).toBe(true);
  });

  it.skipIf(!has('blkid'))('SD-05: blkid prints the label as it stands, of a file system it knows', () => {
    const output = run('blkid', '-p', '-o', 'export', seed).stdout.toString();

    expect(output).toMatch(/^LABEL=cidata$/m);
    expect(output).toMatch(/^TYPE=iso9660$/m);
  });

  it.skipIf(!has('xorriso'))('SD-04: xorriso takes every file out as it was put in', () => {
    const target = join(folder, 'out');

    const { status, stderr } = run('xorriso', '-osirrox', 'on', '-indev', sizes, '-extract', '/', target);

    expect(status, stderr.toString()).toBe(0);
    for (const file of sized) {
      expect(readFileSync(join(target, file.name)).equals(file.content)).toBe(true);
    }
    run('chmod', '-R', 'u+w', target);
  });

  // Tried, and not looked up beforehand: whether a kernel can is known only by then (a module, a container). What speaks
  // against the image itself is no reason to skip.
  const cannotMount = /must be superuser|unknown filesystem type|failed to setup loop device/;
  it.for(['ro', 'ro,norock'])(
    'SD-05: the kernel mounts it with the exact names (%s)',
    (options, { skip }) => {
      const target = join(folder, `mnt-${options.length}`);
      mkdirSync(target);

      const mount = run('mount', '-t', 'iso9660', '-o', `loop,${options}`, seed, target);

      const reason = mount.stderr.toString().trim();
      skip(cannotMount.test(reason), `the loop mount of a seed: ${reason}`);
      expect(mount.status, reason).toBe(0);
      try {
        expect(readdirSync(target).toSorted()).toEqual(files.map((file) => file.name).toSorted());
        for (const file of files) {
          expect(readFileSync(join(target, file.name)).equals(file.content)).toBe(true);
        }
      } finally {
        run('umount', target);
      }
    },
  );
});
