/**
 * Reads an ISO 9660 image back, written apart from the writer and from the standard: every number that stands in two
 * byte orders is compared, and every record is walked, so that a test can see what another reader would.
 */

export interface DirectoryEntry {
  /** The identifier as it stands: ISO characters, or Joliet's. */
  readonly name: string;
  readonly rockRidgeName: string | undefined;
  readonly mode: number | undefined;
  readonly sector: number;
  readonly bytes: number;
  readonly recordBytes: number;
  readonly systemUseOffset: number;
}

export interface VolumeTree {
  readonly volumeId: string;
  readonly volumeSectors: number;
  /** The root as the little-endian and as the big-endian path table give it. */
  readonly pathTableRoots: readonly number[];
  readonly self: DirectoryEntry;
  readonly parent: DirectoryEntry;
  readonly files: readonly DirectoryEntry[];
}

export function readImage(image: Buffer): { primary: VolumeTree; joliet: VolumeTree } {
  return { primary: readTree(image, 16, 1, latin1), joliet: readTree(image, 17, 2, ucs2be) };
}

type Decode = (bytes: Buffer) => string;
const latin1: Decode = (bytes) => bytes.toString('latin1');
const ucs2be: Decode = (bytes) => Buffer.from(bytes).swap16().toString('utf16le');

function readTree(image: Buffer, sector: number, type: number, decode: Decode): VolumeTree {
  const descriptor = image.subarray(sector * 2048, sector * 2048 + 2048);
  if (descriptor[0] !== type || latin1(descriptor.subarray(1, 6)) !== 'CD001' || descriptor[6] !== 1) {
    throw new Error(`sector ${sector} holds no volume descriptor of type ${type}`);
  }
  if (both16(descriptor, 128) !== 2048 || both16(descriptor, 120) !== 1 || both16(descriptor, 124) !== 1) {
    throw new Error('not one volume of 2,048-byte blocks');
  }
  const root = readRecord(descriptor, 156, decode);
  const entries = readDirectory(image, root, decode);
  const [self, parent, ...files] = entries;
  if (
    self === undefined ||
    parent === undefined ||
    self.sector !== root.sector ||
    self.bytes !== root.bytes
  ) {
    throw new Error('the root directory does not begin with itself and its parent');
  }
  const tables = [descriptor.readUInt32LE(140), descriptor.readUInt32BE(148)];
  return {
    volumeId: decode(descriptor.subarray(40, 72)).trimEnd(),
    volumeSectors: both32(descriptor, 80),
    pathTableRoots: tables.map((table, index) =>
      readPathTable(image, table, both32(descriptor, 132), index === 1),
    ),
    self,
    parent,
    files,
  };
}

function readPathTable(image: Buffer, sector: number, bytes: number, bigEndian: boolean): number {
  const table = image.subarray(sector * 2048, sector * 2048 + bytes);
  const parent = bigEndian ? table.readUInt16BE(6) : table.readUInt16LE(6);
  if (table.length !== 10 || table[0] !== 1 || table[8] !== 0 || parent !== 1) {
    throw new Error('not the path table of a root alone');
  }
  return bigEndian ? table.readUInt32BE(2) : table.readUInt32LE(2);
}

function readDirectory(image: Buffer, root: DirectoryEntry, decode: Decode): DirectoryEntry[] {
  const directory = image.subarray(root.sector * 2048, root.sector * 2048 + root.bytes);
  const entries: DirectoryEntry[] = [];
  for (let offset = 0; offset < directory.length; ) {
    const length = directory[offset] ?? 0;
    if (length === 0) {
      offset = (Math.floor(offset / 2048) + 1) * 2048;
      continue;
    }
    if ((offset % 2048) + length > 2048) {
      throw new Error('a record crosses the border of a sector');
    }
    entries.push(readRecord(directory, offset, decode));
    offset += length;
  }
  return entries;
}

function readRecord(buffer: Buffer, offset: number, decode: Decode): DirectoryEntry {
  const record = buffer.subarray(offset, offset + (buffer[offset] ?? 0));
  const idLength = record[32] ?? 0;
  const identifier = record.subarray(33, 33 + idLength);
  const systemUseOffset = 33 + idLength + (idLength % 2 === 0 ? 1 : 0);
  const entries = readSystemUse(record.subarray(systemUseOffset));
  const isSpecial = idLength === 1 && (identifier[0] ?? 2) <= 1;
  return {
    name: isSpecial ? '.'.repeat((identifier[0] ?? 0) + 1) : decode(identifier),
    rockRidgeName: entries.get('NM')?.subarray(5).toString('latin1'),
    mode: entries.has('PX') ? both32(entries.get('PX') ?? Buffer.alloc(0), 4) : undefined,
    sector: both32(record, 2),
    bytes: both32(record, 10),
    recordBytes: record.length,
    systemUseOffset,
  };
}

function readSystemUse(area: Buffer): Map<string, Buffer> {
  const entries = new Map<string, Buffer>();
  for (let offset = 0; offset + 4 <= area.length; ) {
    const length = area[offset + 2] ?? 0;
    if (length < 4 || offset + length > area.length) {
      throw new Error('a system use entry leaves its record');
    }
    entries.set(area.subarray(offset, offset + 2).toString('latin1'), area.subarray(offset, offset + length));
    offset += length;
  }
  return entries;
}

function both16(buffer: Buffer, offset: number): number {
  return same(buffer.readUInt16LE(offset), buffer.readUInt16BE(offset + 2));
}

function both32(buffer: Buffer, offset: number): number {
  return same(buffer.readUInt32LE(offset), buffer.readUInt32BE(offset + 4));
}

function same(little: number, big: number): number {
  if (little !== big) {
    throw new Error(`the byte orders disagree: ${little} and ${big}`);
  }
  return little;
}
