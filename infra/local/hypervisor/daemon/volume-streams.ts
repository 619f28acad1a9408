/** The bytes of volumes, in and out. libvirt checks no length: what is too short stays so, what is too long grows. */
import type { StorageVolHandle } from '../../../../lib/libvirt/objects.ts';
import type { HostState } from '../state/host-state.ts';
import { refuseWhileBuilding } from '../state/storage-pool.ts';
import { checkFlags, ERRNO, ERROR_DOMAIN, noStorageVol, systemError } from './daemon-error.ts';
import type { DownloadHandlers, UploadHandlers, UploadSink } from './handler.ts';
import { volumeOf } from './volume-procedures.ts';

export const uploadHandlers: UploadHandlers = {
  storageVolUpload: ({ vol, offset, length, flags }, { host }) => {
    checkFlags(flags, 1, 'storageVolUpload', ERROR_DOMAIN.storage);
    const file = fileOf(host, vol);
    return uploadSink(host, file, Number(offset), length === 0n ? undefined : Number(length));
  },
};

export const downloadHandlers: DownloadHandlers = {
  storageVolDownload: ({ vol, offset, length, flags }, { host }) => {
    checkFlags(flags, 1, 'storageVolDownload', ERROR_DOMAIN.storage);
    return fileOf(host, vol).bytes.chunks(Number(offset), length === 0n ? undefined : Number(length));
  },
};

type File = NonNullable<ReturnType<HostState['files']['get']>>;

/** The stream holds the open file: deleting the volume meanwhile does not disturb it. */
function fileOf(host: HostState, vol: StorageVolHandle): File {
  const { volume } = volumeOf(host, vol);
  refuseWhileBuilding(volume);
  const file = host.files.get(volume.path);
  if (!file) {
    throw noStorageVol(`no storage vol with matching path '${volume.path}'`);
  }
  return file;
}

function uploadSink(host: HostState, file: File, offset: number, length: number | undefined): UploadSink {
  let done = 0;
  return (bytes) => {
    const isOver = length !== undefined && done + bytes.length > length;
    if (isOver || bytes.length > host.files.availableBytes) {
      throw systemError(
        ERROR_DOMAIN.streams,
        ERRNO.noSpace,
        'cannot write to stream: No space left on device',
      );
    }
    file.bytes.write(offset + done, bytes);
    host.files.touch(file);
    done += bytes.length;
  };
}
