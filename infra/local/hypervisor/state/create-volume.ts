/**
 * Making a volume: the name is taken at once, the bytes come after `build` has passed. In between a second create gets
 * "exists already" for a file that is not usable yet, which is what concurrent creators of a real pool meet.
 */
import { ERRNO, ERROR_DOMAIN, internalError, notSupported, systemError } from '../daemon/daemon-error.ts';
import type { HostFiles } from './host-files.ts';
import { buildQcow2, QCOW2_HEADER_BYTES, readQcow2Header } from './qcow2-image.ts';
import type { StoragePool, Volume } from './storage-pool.ts';
import type { VolumeRequest } from './volume-xml.ts';

/** ext4's limit with 4 KiB blocks. */
const FILE_MAX_BYTES = 2 ** 44;
/** qemu-img refuses an image whose first-level table would be over 32 MiB. */
const QCOW2_MAX_BYTES = 2 ** 51;

/** @throws DaemonError as libvirt or its qemu-img do; the name is free again then. */
export async function createVolume(
  pool: StoragePool,
  request: VolumeRequest,
  files: HostFiles,
  build: () => Promise<void>,
): Promise<Volume> {
  if (request.format === 'raw' && request.backing) {
    throw notSupported(ERROR_DOMAIN.storage, 'backing storage not supported for raw volumes');
  }
  const volume = pool.reserve(request.name, request.format);
  try {
    const backingBytes = backingSize(request, files);
    const file = files.create(volume.path);
    await build();
    if (request.format === 'qcow2') {
      file.bytes.write(0, qcow2Content(request, volume, backingBytes, files));
    } else {
      file.bytes.truncate(rawSize(request, volume));
    }
    files.touch(file);
    volume.isBuilding = false;
    return volume;
  } catch (error) {
    pool.remove(volume);
    throw error;
  }
}

/** The virtual size of what an overlay stands on. */
function backingSize({ backing }: VolumeRequest, files: HostFiles): number | undefined {
  if (!backing) {
    return undefined;
  }
  const file = files.get(backing.path);
  if (!file) {
    throw systemError(
      ERROR_DOMAIN.storage,
      ERRNO.noEntry,
      `inaccessible backing store volume ${backing.path}: No such file or directory`,
    );
  }
  const header = readQcow2Header(file.bytes.read(0, QCOW2_HEADER_BYTES));
  if (backing.format === 'qcow2' && !header) {
    throw qemuImgFailed(`${backing.path}: Image is not in qcow2 format\nCould not open backing image.`);
  }
  return backing.format === 'raw' || !header ? file.bytes.sizeBytes : header.virtualSizeBytes;
}

function qcow2Content(
  request: VolumeRequest,
  volume: Volume,
  backingBytes: number | undefined,
  files: HostFiles,
): Uint8Array {
  // libvirt hands sizes to qemu-img in whole KiB.
  const virtualSizeBytes = Math.ceil((request.capacity ?? backingBytes ?? 0) / 1024) * 1024;
  if (virtualSizeBytes > QCOW2_MAX_BYTES) {
    throw qemuImgFailed(`${volume.path}: Image size too large for this cluster size`);
  }
  const content = buildQcow2({ virtualSizeBytes, compat: request.compat, backing: request.backing });
  if (content.length > files.availableBytes) {
    throw qemuImgFailed(`${volume.path}: Could not resize image: No space left on device`);
  }
  return content;
}

function rawSize(request: VolumeRequest, volume: Volume): number {
  const size = request.capacity ?? 0;
  if (size > FILE_MAX_BYTES) {
    throw systemError(
      ERROR_DOMAIN.storage,
      ERRNO.fileTooLarge,
      `cannot extend file '${volume.path}': File too large`,
    );
  }
  return size;
}

const qemuImgFailed = (detail: string): Error =>
  internalError(
    ERROR_DOMAIN.none,
    `Child process (/usr/bin/qemu-img create) unexpected exit status 1: qemu-img: ${detail}`,
  );
