/**
 * Where a file stands on a seed of ours. A strict reader of the layout that `buildIso9660` writes and of no other: what it
 * finds is written to, on a volume that a guest has open, so a volume that differs in anything is refused.
 */
import { DIRECTORY_FLAG, FIXED_BYTES, isoIdentifiers } from './iso-directory.ts';
import { SECTOR_BYTES } from './iso-fields.ts';
import { APPLICATION_ID } from './iso-volume.ts';
import { FIRST_FILE_AT_LEAST, JOLIET_DESCRIPTOR, PRIMARY_DESCRIPTOR } from './iso9660.ts';
import { SEED_LABEL, type SeedFileName } from './seed.ts';

/** In bytes. */
export interface SeedExtent {
  readonly offset: number;
  readonly length: number;
}

/** The volume is not a seed as it is made here. The message quotes nothing of it. */
export class SeedLayoutError extends Error {
  override readonly name = 'SeedLayoutError';
}

/**
 * Descriptors and directories of a seed, and nothing else, are this beginning of it: it holds no byte of a file, and no more needs
 * to be read to find one. A seed has four names at most; a directory that is longer than a sector is refused as cut off.
 */
export const SEED_DIRECTORY_BYTES = FIRST_FILE_AT_LEAST * SECTOR_BYTES;

/**
 * @param beginning the first SEED_DIRECTORY_BYTES of the volume
 * @param volumeBytes how long the volume is
 * @throws SeedLayoutError
 */
export function findOnSeed(beginning: Uint8Array, volumeBytes: number, name: SeedFileName): SeedExtent {
  const image = Buffer.from(beginning.buffer, beginning.byteOffset, beginning.byteLength);
  const primary = readFiles(image, PRIMARY_DESCRIPTOR, 1, volumeBytes, (text) => text.toString('latin1'));
  const joliet = readFiles(image, JOLIET_DESCRIPTOR, 2, volumeBytes, decodeUcs2be);
  const [isoName = ''] = isoIdentifiers([name]);
  const extent = primary.find((file) => file.name === isoName);
  const again = joliet.find((file) => file.name === name);
  if (extent === undefined || again === undefined) throw new SeedLayoutError('the seed has no such file');
  if (extent.offset !== again.offset || extent.length !== again.length) {
    throw new SeedLayoutError('the two directories of the seed disagree');
  }
  if (primary.some((file) => file !== extent && overlap(file, extent))) {
    throw new SeedLayoutError('two files of the seed share their bytes');
  }
  return { offset: extent.offset, length: extent.length };
}

interface PlacedFile extends SeedExtent {
  readonly name: string;
}

type DecodeText = (text: Buffer) => string;

/** The files of one tree, each within the volume and behind the directories. */
function readFiles(
  image: Buffer,
  sector: number,
  type: 1 | 2,
  volumeBytes: number,
  decode: DecodeText,
): readonly PlacedFile[] {
  const descriptor = slice(image, sector * SECTOR_BYTES, SECTOR_BYTES);
  const isOurs =
    descriptor[0] === type &&
    descriptor.toString('latin1', 1, 6) === 'CD001' &&
    decode(descriptor.subarray(40, 72)).trimEnd() === SEED_LABEL &&
    decode(descriptor.subarray(574, 574 + 128)).trimEnd() === APPLICATION_ID &&
    both32(descriptor, 80) * SECTOR_BYTES === volumeBytes;
  if (!isOurs) throw new SeedLayoutError('not a seed of this program and this size');
  const root = readRecord(descriptor.subarray(156, 156 + FIXED_BYTES + 1), decode);
  const directory = slice(image, root.offset, root.length);
  const files: PlacedFile[] = [];
  for (let at = 0; at < directory.length; ) {
    const length = directory[at] ?? 0;
    if (length === 0) {
      // No record crosses a sector's end: the rest of this one is empty.
      at = (Math.floor(at / SECTOR_BYTES) + 1) * SECTOR_BYTES;
      continue;
    }
    const record = readRecord(slice(directory, at, length), decode);
    if (!record.isDirectory) files.push(record);
    at += length;
  }
  const directoryEnd = root.offset + root.length;
  if (files.some(({ offset, length }) => offset < directoryEnd || offset + length > volumeBytes)) {
    throw new SeedLayoutError('a file of the seed lies where none can');
  }
  return files;
}

function readRecord(record: Buffer, decode: DecodeText): PlacedFile & { readonly isDirectory: boolean } {
  const nameBytes = record[32] ?? 0;
  const isDirectory = ((record[25] ?? 0) & DIRECTORY_FLAG) !== 0;
  const name = slice(record, FIXED_BYTES, nameBytes);
  return {
    name: isDirectory ? '' : decode(name),
    isDirectory,
    offset: both32(record, 2) * SECTOR_BYTES,
    length: both32(record, 10),
  };
}

function decodeUcs2be(text: Buffer): string {
  if (text.length % 2 !== 0) throw new SeedLayoutError('a name of the seed ends within a character');
  return Buffer.from(text).swap16().toString('utf16le');
}

/** ECMA-119 7.3.3: the same number in both byte orders. */
function both32(bytes: Buffer, offset: number): number {
  const field = slice(bytes, offset, 8);
  const value = field.readUInt32LE(0);
  if (value !== field.readUInt32BE(4)) throw new SeedLayoutError('a number of the seed stands in two values');
  return value;
}

function slice(bytes: Buffer, offset: number, length: number): Buffer {
  if (offset + length > bytes.length) throw new SeedLayoutError('the seed is cut off');
  return bytes.subarray(offset, offset + length);
}

function overlap(a: SeedExtent, b: SeedExtent): boolean {
  return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}
