/**
 * Small valid qcow2 disks, so that suites need neither qemu-img nor a fixture: header, reference counts, one L1 and one L2
 * table, then the data clusters. `qemu-img check` finds no fault in them.
 */
import { createHash } from 'node:crypto';

const CLUSTER_BITS = 16;
const CLUSTER_BYTES = 2 ** CLUSTER_BITS;
const L2_ENTRIES = CLUSTER_BYTES / 8;
/** Bit 63 of a table entry: the cluster has one reference. */
const COPIED = 1n << 63n;
const FIRST_DATA_CLUSTER = 5;

export interface DiskShape {
  /** At most 512 MiB: one L2 table. */
  readonly virtualSizeBytes: number;
  readonly dataClusters: number;
  /** Disks of different fill differ in every data byte. */
  readonly fill: number;
}

export function buildQcow2Disk({ virtualSizeBytes, dataClusters, fill }: DiskShape): Buffer {
  if (virtualSizeBytes > L2_ENTRIES * CLUSTER_BYTES) throw new RangeError('one L2 table holds 512 MiB');
  const clusters = FIRST_DATA_CLUSTER + dataClusters;
  const disk = Buffer.alloc(clusters * CLUSTER_BYTES);
  disk.write('QFI\xfb', 0, 'latin1');
  disk.writeUInt32BE(3, 4);
  disk.writeUInt32BE(CLUSTER_BITS, 20);
  disk.writeBigUInt64BE(BigInt(virtualSizeBytes), 24);
  disk.writeUInt32BE(1, 36);
  disk.writeBigUInt64BE(BigInt(3 * CLUSTER_BYTES), 40);
  disk.writeBigUInt64BE(BigInt(CLUSTER_BYTES), 48);
  disk.writeUInt32BE(1, 56);
  disk.writeUInt32BE(4, 96);
  disk.writeUInt32BE(104, 100);

  disk.writeBigUInt64BE(BigInt(2 * CLUSTER_BYTES), CLUSTER_BYTES);
  for (let cluster = 0; cluster < clusters; cluster += 1) {
    disk.writeUInt16BE(1, 2 * CLUSTER_BYTES + cluster * 2);
  }
  disk.writeBigUInt64BE(BigInt(4 * CLUSTER_BYTES) | COPIED, 3 * CLUSTER_BYTES);
  for (let index = 0; index < dataClusters; index += 1) {
    const cluster = FIRST_DATA_CLUSTER + index;
    disk.writeBigUInt64BE(BigInt(cluster * CLUSTER_BYTES) | COPIED, 4 * CLUSTER_BYTES + index * 8);
    disk.fill(fill, cluster * CLUSTER_BYTES, (cluster + 1) * CLUSTER_BYTES);
  }
  return disk;
}

/** A raw disk with a boot signature, as long as asked. */
export function buildRawDisk(sizeBytes: number): Buffer {
  const disk = Buffer.alloc(sizeBytes);
  disk.writeUInt16LE(0xaa55, 510);
  disk.fill(0xd5, 512);
  return disk;
}

export function checksumOf(bytes: Uint8Array, algorithm: 'sha256' | 'sha512' = 'sha256'): string {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`;
}
