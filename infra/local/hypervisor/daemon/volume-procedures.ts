/** Storage volumes, apart from their bytes (volume-streams.ts). */
import {
  STORAGE_VOL_CREATE_PREALLOC_METADATA,
  STORAGE_VOL_RESIZE_DELTA,
  STORAGE_VOL_RESIZE_SHRINK,
  STORAGE_VOL_TYPE,
} from '../../../../lib/libvirt/constants.ts';
import type { StorageVolHandle } from '../../../../lib/libvirt/objects.ts';
import { createVolume } from '../state/create-volume.ts';
import type { HostState } from '../state/host-state.ts';
import { active } from '../state/pool-store.ts';
import { refuseWhileBuilding, type StoragePool, type Volume } from '../state/storage-pool.ts';
import { formatVolume, parseVolume } from '../state/volume-xml.ts';
import { checkFlags, ERROR_DOMAIN, invalidArgument, notSupported } from './daemon-error.ts';
import type { Handlers } from './handler.ts';
import { poolOf, volumeHandle } from './pool-procedures.ts';

/** A volume's handle names its pool; its key is not looked at. */
export function volumeOf(host: HostState, vol: StorageVolHandle): { pool: StoragePool; volume: Volume } {
  const pool = active(host.pools.byName(vol.pool));
  return { pool, volume: pool.volume(vol.name) };
}

export const volumeProcedures: Handlers<
  | 'storageVolCreateXml'
  | 'storageVolDelete'
  | 'storageVolLookupByName'
  | 'storageVolLookupByPath'
  | 'storageVolGetInfo'
  | 'storageVolGetXmlDesc'
  | 'storageVolGetPath'
  | 'storageVolResize'
> = {
  storageVolCreateXml: async ({ pool: handle, xml, flags }, { host, sleep, volumeBuildMs }) => {
    checkFlags(flags, STORAGE_VOL_CREATE_PREALLOC_METADATA | 2, 'storageVolCreateXML', ERROR_DOMAIN.storage);
    const pool = active(poolOf(host, handle));
    const volume = await createVolume(pool, parseVolume(xml), host.files, () => sleep(volumeBuildMs));
    return { vol: volumeHandle(pool, volume) };
  },
  storageVolDelete: ({ vol, flags }, { host }) => {
    checkFlags(flags, 1, 'virStorageBackendVolDeleteLocal', ERROR_DOMAIN.storage);
    const { pool, volume } = volumeOf(host, vol);
    refuseWhileBuilding(volume);
    // Neither a running domain nor an upload nor an overlay keeps libvirt from it.
    pool.remove(volume);
  },
  storageVolLookupByName: ({ pool: handle, name }, { host }) => {
    const pool = active(poolOf(host, handle));
    return { vol: volumeHandle(pool, pool.volume(name)) };
  },
  storageVolLookupByPath: ({ path }, { host }) => {
    const { pool, volume } = host.pools.volumeByPath(path);
    return { vol: volumeHandle(pool, volume) };
  },
  storageVolGetInfo: ({ vol }, { host }) => {
    const { pool, volume } = volumeOf(host, vol);
    const { capacity, allocation } = pool.inspect(volume);
    return {
      type: STORAGE_VOL_TYPE.file,
      capacity: BigInt(capacity),
      allocation: BigInt(allocation),
    };
  },
  storageVolGetXmlDesc: ({ vol, flags }, { host }) => {
    checkFlags(flags, 0, 'storageVolGetXMLDesc', ERROR_DOMAIN.storage);
    const { pool, volume } = volumeOf(host, vol);
    return { xml: formatVolume(volume, pool.inspect(volume), host.files) };
  },
  storageVolGetPath: ({ vol }, { host }) => ({ name: volumeOf(host, vol).volume.path }),
  storageVolResize: ({ vol, capacity, flags }, { host }) => {
    checkFlags(flags, 7, 'storageVolResize', ERROR_DOMAIN.storage);
    const { pool, volume } = volumeOf(host, vol);
    refuseWhileBuilding(volume);
    const seen = pool.inspect(volume);
    const wanted = Number(capacity) + ((flags & STORAGE_VOL_RESIZE_DELTA) !== 0 ? seen.capacity : 0);
    if (wanted < seen.capacity && (flags & STORAGE_VOL_RESIZE_SHRINK) === 0) {
      throw invalidArgument(
        ERROR_DOMAIN.storage,
        "Can't shrink capacity below current capacity unless shrink flag explicitly specified",
      );
    }
    if (seen.format === 'qcow2') {
      // A real host runs qemu-img, which moves tables; answering without doing so would leave a broken image.
      throw notSupported(ERROR_DOMAIN.storage, 'the embedded host does not resize qcow2 volumes');
    }
    seen.file.bytes.truncate(wanted);
    host.files.touch(seen.file);
  },
};
