/**
 * Writes an ISO 9660 image of a few files in one directory, in memory. Every name is on it three times: as ISO level
 * 1 requires, exact under Rock Ridge and exact under Joliet. The same input gives the same bytes.
 */
import { jolietDirectory, type PlacedFile, pathTable, rockRidgeDirectory } from './iso-directory.ts';
import { SECTOR_BYTES, sectorsFor } from './iso-fields.ts';
import { jolietDescriptor, primaryDescriptor, terminator } from './iso-volume.ts';

export interface IsoFile {
  /** 1–64 printable ASCII characters except the ones Joliet forbids (`* / : ; ? \`). */
  readonly name: string;
  readonly content: Uint8Array;
}

export interface IsoOptions {
  /** 1–16 characters, written as given: the longest label that Joliet's field holds too. */
  readonly volumeId: string;
  /** Every time on the image; years 1900–2155, whole seconds are kept. */
  readonly time: Date;
}

/** ECMA-119 6.2.1: the first sixteen sectors belong to the system and stay empty. */
const SYSTEM_AREA_SECTORS = 16;
export const PRIMARY_DESCRIPTOR = SYSTEM_AREA_SECTORS;
export const JOLIET_DESCRIPTOR = 17;
const TERMINATOR = 18;
const PATH_TABLES = { primary: { little: 19, big: 20 }, joliet: { little: 21, big: 22 } } as const;
const FIRST_DIRECTORY = 23;

/**
 * Where the first file begins when each of the two directories fits into one sector, as they do with a few names: before it
 * stands nothing but descriptors, path tables and directories.
 */
export const FIRST_FILE_AT_LEAST = FIRST_DIRECTORY + 2;

const FILE_NAME = /^[\x21-\x7e]{1,64}$/;
const FORBIDDEN_IN_JOLIET = /[*/:;?\\]/;
const VOLUME_ID = /^[\x21-\x7e]{1,16}$/;

/**
 * @returns the image, a multiple of 2,048 bytes
 * @throws RangeError for a name, label, time or size that the format cannot hold
 */
export function buildIso9660(files: readonly IsoFile[], options: IsoOptions): Uint8Array {
  checkInput(files, options);
  const { time } = options;

  // A directory's size does not depend on where it or its files stand, so a draft at sector 0 measures it.
  const draft = files.map(({ name, content }) => ({ name, bytes: content.length, sector: 0 }));
  const primarySectors = sectorsFor(rockRidgeDirectory(draft, 0, 0, time).length);
  const jolietSectors = sectorsFor(jolietDirectory(draft, 0, 0, time).length);
  const primaryRoot = FIRST_DIRECTORY;
  const jolietRoot = primaryRoot + primarySectors;

  const placed: PlacedFile[] = [];
  let sectors = jolietRoot + jolietSectors;
  for (const { name, content } of files) {
    placed.push({ name, bytes: content.length, sector: sectors });
    // An empty file gets a sector of its own too: readers exist that tell files apart by where they start.
    sectors += Math.max(1, sectorsFor(content.length));
  }

  const image = Buffer.alloc(sectors * SECTOR_BYTES);
  const put = (sector: number, bytes: Uint8Array) => image.set(bytes, sector * SECTOR_BYTES);
  const volume = { volumeId: options.volumeId, sectors, time };
  const primaryBytes = primarySectors * SECTOR_BYTES;
  const jolietBytes = jolietSectors * SECTOR_BYTES;

  put(
    PRIMARY_DESCRIPTOR,
    primaryDescriptor(volume, {
      littleEndianPathTable: PATH_TABLES.primary.little,
      bigEndianPathTable: PATH_TABLES.primary.big,
      rootDirectory: primaryRoot,
      rootDirectoryBytes: primaryBytes,
    }),
  );
  put(
    JOLIET_DESCRIPTOR,
    jolietDescriptor(volume, {
      littleEndianPathTable: PATH_TABLES.joliet.little,
      bigEndianPathTable: PATH_TABLES.joliet.big,
      rootDirectory: jolietRoot,
      rootDirectoryBytes: jolietBytes,
    }),
  );
  put(TERMINATOR, terminator());
  put(PATH_TABLES.primary.little, pathTable(primaryRoot, 'little'));
  put(PATH_TABLES.primary.big, pathTable(primaryRoot, 'big'));
  put(PATH_TABLES.joliet.little, pathTable(jolietRoot, 'little'));
  put(PATH_TABLES.joliet.big, pathTable(jolietRoot, 'big'));
  put(primaryRoot, rockRidgeDirectory(placed, primaryRoot, primaryBytes, time));
  put(jolietRoot, jolietDirectory(placed, jolietRoot, jolietBytes, time));
  files.forEach((file, index) => {
    put(placed[index]?.sector ?? 0, file.content);
  });
  return image;
}

function checkInput(files: readonly IsoFile[], { volumeId, time }: IsoOptions): void {
  if (!VOLUME_ID.test(volumeId)) {
    throw new RangeError('a volume label is 1 to 16 printable ASCII characters without spaces');
  }
  const year = time.getUTCFullYear();
  if (!(year >= 1900 && year <= 2155)) {
    throw new RangeError('an ISO 9660 time lies in the years 1900 to 2155');
  }
  const names = new Set<string>();
  for (const { name, content } of files) {
    if (!FILE_NAME.test(name) || FORBIDDEN_IN_JOLIET.test(name)) {
      throw new RangeError(`not a file name for ISO 9660 with Joliet: ${JSON.stringify(name)}`);
    }
    if (names.has(name)) {
      throw new RangeError(`two files of the name ${name}`);
    }
    if (content.length > 0xffff_ffff) {
      throw new RangeError(`${name} is longer than one extent holds`);
    }
    names.add(name);
  }
}
