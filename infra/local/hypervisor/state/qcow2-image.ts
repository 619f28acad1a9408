/**
 * Empty qcow2 images as `qemu-img create` lays them out, and the part of a header that libvirt reads. They are real:
 * what is downloaded from the embedded host opens in QEMU. Format: QEMU's docs/interop/qcow2.txt.
 */
const MAGIC = 0x5146_49fb;
const CLUSTER_BITS = 16;
const CLUSTER_BYTES = 1 << CLUSTER_BITS;
/** One L1 entry points to an L2 table of one cluster, each entry of which maps one cluster. */
const L1_ENTRY_COVERS_BYTES = (CLUSTER_BYTES / 8) * CLUSTER_BYTES;
const BACKING_FORMAT_EXTENSION = 0xe279_2aca;
const VERSION_2_HEADER_BYTES = 72;
const VERSION_3_HEADER_BYTES = 104;

export interface Qcow2Backing {
  readonly path: string;
  readonly format: string | undefined;
}

export interface Qcow2Header {
  readonly version: number;
  readonly virtualSizeBytes: number;
  readonly backing: Qcow2Backing | undefined;
}

/** How far into a file `readQcow2Header` needs to see. */
export const QCOW2_HEADER_BYTES = CLUSTER_BYTES;

/** undefined when the bytes are no qcow2 header. */
export function readQcow2Header(bytes: Uint8Array): Qcow2Header | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length < VERSION_2_HEADER_BYTES || view.readUInt32BE(0) !== MAGIC) {
    return undefined;
  }
  const version = view.readUInt32BE(4);
  if (version >= 3 && view.length < VERSION_3_HEADER_BYTES) {
    return undefined;
  }
  const nameOffset = Number(view.readBigUInt64BE(8));
  const nameBytes = view.readUInt32BE(16);
  const path = nameOffset > 0 ? view.subarray(nameOffset, nameOffset + nameBytes).toString('utf8') : '';
  return {
    version,
    virtualSizeBytes: Number(view.readBigUInt64BE(24)),
    backing: path === '' ? undefined : { path, format: readBackingFormat(view, version, nameOffset) },
  };
}

/** The whole content of a new image; its length is not a multiple of the cluster, as with `qemu-img create`. */
export function buildQcow2(options: {
  readonly virtualSizeBytes: number;
  readonly compat: '0.10' | '1.1';
  readonly backing?: Qcow2Backing | undefined;
}): Uint8Array {
  const { virtualSizeBytes, compat, backing } = options;
  const l1Entries = Math.ceil(virtualSizeBytes / L1_ENTRY_COVERS_BYTES) || 1;
  const image = Buffer.alloc(3 * CLUSTER_BYTES + l1Entries * 8);
  writeHeader(image, compat === '1.1' ? 3 : 2, virtualSizeBytes, l1Entries, backing);
  // Refcount table (cluster 1) → refcount block (cluster 2) → one reference for each cluster that is in use.
  image.writeBigUInt64BE(BigInt(2 * CLUSTER_BYTES), CLUSTER_BYTES);
  const clusters = Math.ceil(image.length / CLUSTER_BYTES);
  for (let cluster = 0; cluster < clusters; cluster++) {
    image.writeUInt16BE(1, 2 * CLUSTER_BYTES + cluster * 2);
  }
  return image;
}

function writeHeader(
  image: Buffer,
  version: number,
  virtualSizeBytes: number,
  l1Entries: number,
  backing: Qcow2Backing | undefined,
): void {
  const headerBytes = version === 3 ? VERSION_3_HEADER_BYTES : VERSION_2_HEADER_BYTES;
  image.writeUInt32BE(MAGIC, 0);
  image.writeUInt32BE(version, 4);
  image.writeUInt32BE(CLUSTER_BITS, 20);
  image.writeBigUInt64BE(BigInt(virtualSizeBytes), 24);
  image.writeUInt32BE(l1Entries, 36);
  image.writeBigUInt64BE(BigInt(3 * CLUSTER_BYTES), 40);
  image.writeBigUInt64BE(BigInt(CLUSTER_BYTES), 48);
  image.writeUInt32BE(1, 56);
  if (version === 3) {
    image.writeUInt32BE(4, 96);
    image.writeUInt32BE(VERSION_3_HEADER_BYTES, 100);
  }
  if (!backing) {
    return;
  }
  let at = headerBytes;
  if (backing.format !== undefined) {
    const format = Buffer.from(backing.format);
    image.writeUInt32BE(BACKING_FORMAT_EXTENSION, at);
    image.writeUInt32BE(format.length, at + 4);
    image.set(format, at + 8);
    at += 8 + Math.ceil(format.length / 8) * 8;
  }
  // An extension of type 0 and length 0 ends the list; the name may follow at once.
  at += 8;
  const path = Buffer.from(backing.path);
  image.set(path, at);
  image.writeBigUInt64BE(BigInt(at), 8);
  image.writeUInt32BE(path.length, 16);
}

function readBackingFormat(view: Buffer, version: number, end: number): string | undefined {
  let at = version >= 3 ? view.readUInt32BE(100) : VERSION_2_HEADER_BYTES;
  while (at + 8 <= Math.min(end, view.length)) {
    const type = view.readUInt32BE(at);
    const length = view.readUInt32BE(at + 4);
    if (type === BACKING_FORMAT_EXTENSION) {
      return view.subarray(at + 8, at + 8 + length).toString('utf8');
    }
    if (type === 0) {
      return undefined;
    }
    at += 8 + Math.ceil(length / 8) * 8;
  }
  return undefined;
}
