/**
 * Directory records and path tables (ECMA-119 9.1, 9.4): the two trees of the image, one with ISO names and Rock
 * Ridge entries, one with Joliet names, point at the same file extents.
 */
import { recordTime, SECTOR_BYTES, ucs2be, writeBoth16, writeBoth32 } from './iso-fields.ts';
import { fileEntries, rootParentEntries, rootSelfEntries } from './rock-ridge.ts';

/** A file with its place on the image, in sectors. */
export interface PlacedFile {
  readonly name: string;
  readonly bytes: number;
  readonly sector: number;
}

interface DirectoryRecord {
  readonly identifier: Buffer;
  readonly sector: number;
  readonly bytes: number;
  readonly isDirectory: boolean;
  readonly systemUse: Buffer;
}

/** ECMA-119 9.1: the fixed fields of a directory record before its identifier. */
export const FIXED_BYTES = 33;
export const DIRECTORY_FLAG = 0x02;
const SELF = Buffer.from([0]);
const PARENT = Buffer.from([1]);
const NOTHING = Buffer.alloc(0);

/** One root directory has no sub-directory, so its path table is this one entry of ten bytes. */
export const PATH_TABLE_BYTES = 10;

/** Names of the ISO tree, in the files' order: level 1 (8.3), each only once. */
export function isoIdentifiers(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    const stem = name.toUpperCase().replaceAll(/[^A-Z0-9_]/g, '_');
    let identifier = `${stem.slice(0, 8)}.;1`;
    for (let n = 1; taken.has(identifier); n++) {
      identifier = `${stem.slice(0, 8 - String(n).length)}${n}.;1`;
    }
    taken.add(identifier);
    return identifier;
  });
}

/** The root directory of the ISO tree. */
export function rockRidgeDirectory(
  files: readonly PlacedFile[],
  sector: number,
  bytes: number,
  time: Date,
): Buffer {
  const identifiers = isoIdentifiers(files.map((file) => file.name));
  return directory(
    { identifier: SELF, sector, bytes, isDirectory: true, systemUse: rootSelfEntries(time) },
    { identifier: PARENT, sector, bytes, isDirectory: true, systemUse: rootParentEntries(time) },
    files.map((file, index) => ({
      identifier: Buffer.from(identifiers[index] ?? '', 'latin1'),
      sector: file.sector,
      bytes: file.bytes,
      isDirectory: false,
      systemUse: fileEntries(file.name, index + 2, time),
    })),
    time,
  );
}

/** The root directory of the Joliet tree: names as they are, without a version suffix that readers would show. */
export function jolietDirectory(
  files: readonly PlacedFile[],
  sector: number,
  bytes: number,
  time: Date,
): Buffer {
  return directory(
    { identifier: SELF, sector, bytes, isDirectory: true, systemUse: NOTHING },
    { identifier: PARENT, sector, bytes, isDirectory: true, systemUse: NOTHING },
    files.map((file) => ({
      identifier: ucs2be(file.name),
      sector: file.sector,
      bytes: file.bytes,
      isDirectory: false,
      systemUse: NOTHING,
    })),
    time,
  );
}

/** The 34-byte record of a root directory that stands inside its volume descriptor. */
export function rootRecord(sector: number, bytes: number, time: Date): Buffer {
  return record({ identifier: SELF, sector, bytes, isDirectory: true, systemUse: NOTHING }, time);
}

/** ECMA-119 9.4: the only directory is the root, its own parent. */
export function pathTable(rootSector: number, byteOrder: 'little' | 'big'): Buffer {
  const table = Buffer.alloc(PATH_TABLE_BYTES);
  table.writeUInt8(SELF.length, 0);
  if (byteOrder === 'little') {
    table.writeUInt32LE(rootSector, 2);
    table.writeUInt16LE(1, 6);
  } else {
    table.writeUInt32BE(rootSector, 2);
    table.writeUInt16BE(1, 6);
  }
  return table;
}

/** Records in the order of their identifiers (ECMA-119 9.3); none crosses a sector's end. */
function directory(
  self: DirectoryRecord,
  parent: DirectoryRecord,
  files: readonly DirectoryRecord[],
  time: Date,
): Buffer {
  const sorted = files.toSorted((a, b) => Buffer.compare(a.identifier, b.identifier));
  const parts: Buffer[] = [];
  let length = 0;
  for (const each of [self, parent, ...sorted]) {
    const bytes = record(each, time);
    const left = SECTOR_BYTES - (length % SECTOR_BYTES);
    if (bytes.length > left) {
      parts.push(Buffer.alloc(left));
      length += left;
    }
    parts.push(bytes);
    length += bytes.length;
  }
  return Buffer.concat(parts);
}

function record(content: DirectoryRecord, time: Date): Buffer {
  const { identifier, systemUse } = content;
  // Even lengths are required twice: the identifier is padded so that the system use field starts even (a reader
  // that finds it odd takes the pad byte for an entry), and the record so that the next one does.
  const identifierEnd = FIXED_BYTES + identifier.length + (identifier.length % 2 === 0 ? 1 : 0);
  const length = identifierEnd + systemUse.length + (systemUse.length % 2);
  const bytes = Buffer.alloc(length);
  bytes.writeUInt8(length, 0);
  writeBoth32(bytes, 2, content.sector);
  writeBoth32(bytes, 10, content.bytes);
  recordTime(time).copy(bytes, 18);
  bytes.writeUInt8(content.isDirectory ? DIRECTORY_FLAG : 0, 25);
  writeBoth16(bytes, 28, 1);
  bytes.writeUInt8(identifier.length, 32);
  identifier.copy(bytes, FIXED_BYTES);
  systemUse.copy(bytes, identifierEnd);
  return bytes;
}
