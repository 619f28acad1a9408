/**
 * The head of a qcow2 file, read the way QEMU will read it on the host, which runs as a privileged reader of whatever
 * file the header names: a backing file, an external data file or a feature that is not known here is refused, and so
 * is every table that does not lie inside the image. Fields and their order: QEMU's docs/interop/qcow2.txt.
 */
import { ImageError, type ImageErrorReason } from './image-error.ts';

export const QCOW2_MAGIC = Uint8Array.of(0x51, 0x46, 0x49, 0xfb);

/** Bits of `incompatible_features`. A reader that does not know a set bit must refuse the file. */
const FEATURE = { dirty: 1n, corrupt: 2n, externalData: 4n, compressionType: 8n, extendedL2: 16n } as const;
/** Dirty means only that reference counts are stale, which a base opened read-only does not use. */
const ACCEPTED_FEATURES = FEATURE.dirty | FEATURE.compressionType | FEATURE.extendedL2;

const EXTENSION = { end: 0, externalDataFile: 0x44415441, encryption: 0x0537be77 } as const;

const V2_HEADER_BYTES = 72;
const V3_HEADER_BYTES = 104;
const COMPRESSION = { zlib: 0, zstd: 1 } as const;
/** QEMU's own limits. */
const CLUSTER_BITS = { min: 9, max: 21 } as const;
const MAX_L1_BYTES = 32 * 1024 ** 2;
const MAX_REFCOUNT_TABLE_BYTES = 8 * 1024 ** 2;
const MAX_SNAPSHOT_TABLE_BYTES = 64 * 1024 ** 2;
/** A snapshot's entry without its extra data and names. */
const MIN_SNAPSHOT_BYTES = 40;

export interface Qcow2Header {
  readonly version: 2 | 3;
  readonly virtualSizeBytes: bigint;
}

/**
 * @param head the first bytes of the file; the header and its extensions must end within them.
 * @param sizeBytes length of the whole file.
 * @throws ImageError `unsafe-header` or `format`
 */
export function parseQcow2Header(head: Uint8Array, sizeBytes: number): Qcow2Header {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (head.length < V2_HEADER_BYTES) refuse('format', 'it is shorter than a qcow2 header');
  const version = view.getUint32(4);
  if (version !== 2 && version !== 3) refuse('format', `qcow2 version ${version} is not known`);
  if (view.getBigUint64(8) !== 0n) refuse('unsafe-header', 'it names a backing file');
  if (view.getUint32(32) !== 0) refuse('format', 'it is encrypted');

  const clusterBits = view.getUint32(20);
  if (clusterBits < CLUSTER_BITS.min || clusterBits > CLUSTER_BITS.max) {
    refuse('unsafe-header', `its cluster size of 2^${clusterBits} bytes is not one of qcow2's`);
  }
  const clusterBytes = 2 ** clusterBits;
  const features = version === 3 ? checkFeatures(view, head.length) : 0n;
  const headerBytes = version === 3 ? view.getUint32(100) : V2_HEADER_BYTES;
  checkExtensions(view, headerBytes, Math.min(clusterBytes, sizeBytes));
  checkTables(view, clusterBytes, sizeBytes, (features & FEATURE.extendedL2) !== 0n);
  return { version, virtualSizeBytes: view.getBigUint64(24) };
}

function checkFeatures(view: DataView, available: number): bigint {
  if (available < V3_HEADER_BYTES) refuse('format', 'it is shorter than a qcow2 header');
  const features = view.getBigUint64(72);
  if ((features & FEATURE.externalData) !== 0n) {
    refuse('unsafe-header', 'it keeps its data in an external file');
  }
  if ((features & FEATURE.corrupt) !== 0n) refuse('format', 'it is marked corrupt');
  const unknown = features & ~ACCEPTED_FEATURES;
  if (unknown !== 0n) {
    refuse('unsafe-header', `it needs features that are not known here (bits 0x${unknown.toString(16)})`);
  }
  if (view.getUint32(96) > 6) refuse('unsafe-header', 'its reference counts are wider than 64 bits');
  const headerBytes = view.getUint32(100);
  if (headerBytes < V3_HEADER_BYTES || headerBytes % 8 !== 0 || headerBytes > available) {
    refuse('unsafe-header', `its header length of ${headerBytes} bytes is not possible`);
  }
  const compression = headerBytes > V3_HEADER_BYTES ? view.getUint8(104) : COMPRESSION.zlib;
  const declared = (features & FEATURE.compressionType) !== 0n;
  if (compression > COMPRESSION.zstd || declared !== (compression !== COMPRESSION.zlib)) {
    refuse('unsafe-header', `its compression type ${compression} is not known here`);
  }
  return features;
}

/** Type, length, data padded to 8 bytes; the list ends with type 0 and lies in the first cluster. */
function checkExtensions(view: DataView, start: number, end: number): void {
  const limit = Math.min(end, view.byteLength);
  let offset = start;
  while (offset + 8 <= limit) {
    const type = view.getUint32(offset);
    const length = view.getUint32(offset + 4);
    if (type === EXTENSION.end) return;
    if (type === EXTENSION.externalDataFile) refuse('unsafe-header', 'it names an external data file');
    if (type === EXTENSION.encryption) refuse('format', 'it is encrypted');
    offset += 8 + Math.ceil(length / 8) * 8;
  }
  // A list may fill the first cluster to its end without a terminator, but not point past what was read.
  if (offset > limit || limit < end)
    refuse('unsafe-header', 'its header extensions do not end where they must');
}

/** Every table that QEMU loads on opening must lie inside the file, aligned and within QEMU's own limits. */
function checkTables(view: DataView, clusterBytes: number, sizeBytes: number, extendedL2: boolean): void {
  const virtualSize = view.getBigUint64(24);
  if (virtualSize === 0n) refuse('format', 'its virtual size is 0');
  const l1Entries = view.getUint32(36);
  const bytesPerL1Entry = BigInt(clusterBytes) * BigInt(clusterBytes / (extendedL2 ? 16 : 8));
  if (BigInt(l1Entries) < (virtualSize + bytesPerL1Entry - 1n) / bytesPerL1Entry) {
    refuse('unsafe-header', 'its L1 table is too small for its virtual size');
  }
  const tables = [
    { name: 'L1 table', offset: view.getBigUint64(40), bytes: l1Entries * 8, maxBytes: MAX_L1_BYTES },
    {
      name: 'reference count table',
      offset: view.getBigUint64(48),
      bytes: view.getUint32(56) * clusterBytes,
      maxBytes: MAX_REFCOUNT_TABLE_BYTES,
    },
    {
      name: 'snapshot table',
      offset: view.getUint32(60) === 0 ? 0n : view.getBigUint64(64),
      bytes: view.getUint32(60) * MIN_SNAPSHOT_BYTES,
      maxBytes: MAX_SNAPSHOT_TABLE_BYTES,
    },
  ];
  for (const { name, offset, bytes, maxBytes } of tables) {
    if (bytes > maxBytes) refuse('unsafe-header', `its ${name} is larger than QEMU accepts`);
    if (offset % BigInt(clusterBytes) !== 0n) refuse('unsafe-header', `its ${name} is not aligned`);
    if (offset + BigInt(bytes) > BigInt(sizeBytes)) {
      refuse('unsafe-header', `its ${name} lies outside the image`);
    }
  }
}

function refuse(reason: ImageErrorReason, fault: string): never {
  throw new ImageError(reason, fault);
}
