/** Storage pools. */
import {
  CONNECT_LIST_STORAGE_POOLS_ACTIVE,
  CONNECT_LIST_STORAGE_POOLS_INACTIVE,
  STORAGE_POOL_CREATE_WITH_BUILD,
  STORAGE_POOL_STATE,
} from '../../../../lib/libvirt/constants.ts';
import type { StoragePoolHandle, StorageVolHandle } from '../../../../lib/libvirt/objects.ts';
import { formatUuid, parseUuid } from '../../../../lib/libvirt/uuid.ts';
import type { HostState } from '../state/host-state.ts';
import { active } from '../state/pool-store.ts';
import type { StoragePool, Volume } from '../state/storage-pool.ts';
import { formatPool, parsePool } from '../state/volume-xml.ts';
import { checkFlags, ERROR_DOMAIN, internalError, operationInvalid } from './daemon-error.ts';
import type { Handlers } from './handler.ts';

/** virConnectListAllStoragePoolsFlags: the first two filter by activity, the others by persistence, autostart and type. */
const LIST_FLAGS = 0x3fffff;

export const poolOf = (host: HostState, handle: StoragePoolHandle): StoragePool =>
  host.pools.byUuid(formatUuid(handle.uuid), handle.name);

export const volumeHandle = (pool: StoragePool, volume: Volume): StorageVolHandle => ({
  pool: pool.name,
  name: volume.name,
  key: volume.path,
});

const poolHandle = (pool: StoragePool): StoragePoolHandle => ({
  name: pool.name,
  uuid: parseUuid(pool.uuid),
});

export const poolProcedures: Handlers<
  | 'connectListAllStoragePools'
  | 'storagePoolLookupByName'
  | 'storagePoolDefineXml'
  | 'storagePoolBuild'
  | 'storagePoolCreate'
  | 'storagePoolDestroy'
  | 'storagePoolUndefine'
  | 'storagePoolSetAutostart'
  | 'storagePoolIsActive'
  | 'storagePoolRefresh'
  | 'storagePoolGetInfo'
  | 'storagePoolGetXmlDesc'
  | 'storagePoolListAllVolumes'
> = {
  connectListAllStoragePools: ({ needResults, flags }, { host }) => {
    checkFlags(flags, LIST_FLAGS, 'storageConnectListAllStoragePools', ERROR_DOMAIN.storage);
    const wanted = flags & (CONNECT_LIST_STORAGE_POOLS_ACTIVE | CONNECT_LIST_STORAGE_POOLS_INACTIVE);
    const found = host.pools.all.filter(
      (pool) =>
        wanted === 0 ||
        (wanted &
          (pool.isActive ? CONNECT_LIST_STORAGE_POOLS_ACTIVE : CONNECT_LIST_STORAGE_POOLS_INACTIVE)) !==
          0,
    );
    return { pools: needResults ? found.map(poolHandle) : [], ret: found.length };
  },
  storagePoolLookupByName: ({ name }, { host }) => ({ pool: poolHandle(host.pools.byName(name)) }),
  storagePoolDefineXml: ({ xml, flags }, { host }) => {
    checkFlags(flags, 1, 'storagePoolDefineXML', ERROR_DOMAIN.storage);
    return { pool: poolHandle(host.pools.define(parsePool(xml))) };
  },
  storagePoolBuild: ({ pool: handle, flags }, { host }) => {
    checkFlags(flags, 3, 'virStorageBackendDirBuild', ERROR_DOMAIN.storage);
    const pool = poolOf(host, handle);
    if (pool.isActive) {
      throw operationInvalid(ERROR_DOMAIN.storage, `storage pool '${pool.name}' is already active`);
    }
    host.files.makeDirectory(pool.targetPath);
  },
  storagePoolCreate: ({ pool: handle, flags }, { host }) => {
    checkFlags(flags, 7, 'storagePoolCreate', ERROR_DOMAIN.storage);
    const pool = poolOf(host, handle);
    if ((flags & STORAGE_POOL_CREATE_WITH_BUILD) !== 0) {
      host.files.makeDirectory(pool.targetPath);
    }
    pool.start();
  },
  storagePoolDestroy: ({ pool }, { host }) => active(poolOf(host, pool)).stop(),
  storagePoolUndefine: ({ pool }, { host }) => host.pools.undefine(poolOf(host, pool)),
  storagePoolSetAutostart: ({ pool, autostart }, { host }) => {
    poolOf(host, pool).autostart = autostart !== 0;
  },
  storagePoolIsActive: ({ pool }, { host }) => ({ active: poolOf(host, pool).isActive ? 1 : 0 }),
  storagePoolRefresh: ({ pool: handle, flags }, { host }) => {
    checkFlags(flags, 0, 'storagePoolRefresh', ERROR_DOMAIN.storage);
    const pool = active(poolOf(host, handle));
    if (pool.volumes.some((volume) => volume.isBuilding)) {
      throw internalError(ERROR_DOMAIN.storage, `pool '${pool.name}' has asynchronous jobs running.`);
    }
    pool.refresh();
  },
  storagePoolGetInfo: ({ pool: handle }, { host: { pools, files } }) => {
    const pool = pools.byUuid(formatUuid(handle.uuid), handle.name);
    const bytes = (value: number): bigint => BigInt(pool.isActive ? value : 0);
    return {
      state: pool.isActive ? STORAGE_POOL_STATE.running : STORAGE_POOL_STATE.inactive,
      capacity: bytes(files.capacityBytes),
      allocation: bytes(files.allocatedBytes),
      available: bytes(files.availableBytes),
    };
  },
  storagePoolGetXmlDesc: ({ pool, flags }, { host }) => {
    checkFlags(flags, 1, 'storagePoolGetXMLDesc', ERROR_DOMAIN.storage);
    return { xml: formatPool(poolOf(host, pool), host.files) };
  },
  storagePoolListAllVolumes: ({ pool: handle, needResults, flags }, { host }) => {
    checkFlags(flags, 0, 'storagePoolListAllVolumes', ERROR_DOMAIN.storage);
    const pool = active(poolOf(host, handle));
    const found = pool.volumes;
    return {
      vols: needResults ? found.map((volume) => volumeHandle(pool, volume)) : [],
      ret: found.length,
    };
  },
};
