/** The storage pools of one host, looked up the way libvirt does: by UUID when a handle is given, by name otherwise. */
import {
  ERROR_DOMAIN,
  noStoragePool,
  noStorageVol,
  operationFailed,
  operationInvalid,
} from '../daemon/daemon-error.ts';
import type { HostFiles } from './host-files.ts';
import { StoragePool, type Volume } from './storage-pool.ts';

export class PoolStore {
  readonly #byName = new Map<string, StoragePool>();
  readonly #files: HostFiles;

  constructor(files: HostFiles) {
    this.#files = files;
  }

  get all(): StoragePool[] {
    return [...this.#byName.values()];
  }

  /** Adds an inactive pool; the same name and UUID replace an inactive one. @throws DaemonError operationFailed */
  define(pool: { name: string; uuid?: string | undefined; targetPath: string }): StoragePool {
    const existing = this.#byName.get(pool.name);
    if (existing && existing.uuid !== pool.uuid) {
      throw operationFailed(
        ERROR_DOMAIN.storage,
        `pool '${pool.name}' already exists with uuid ${existing.uuid}`,
      );
    }
    if (existing?.isActive) {
      throw operationInvalid(ERROR_DOMAIN.storage, `pool is already active as '${pool.name}'`);
    }
    const defined = new StoragePool({ ...pool, files: this.#files });
    this.#byName.set(defined.name, defined);
    return defined;
  }

  /** @throws DaemonError operationInvalid while it is active. */
  undefine(pool: StoragePool): void {
    if (pool.isActive) {
      throw operationInvalid(ERROR_DOMAIN.storage, `storage pool '${pool.name}' is still active`);
    }
    this.#byName.delete(pool.name);
  }

  /** @throws DaemonError noStoragePool */
  byName(name: string): StoragePool {
    const pool = this.#byName.get(name);
    if (!pool) {
      throw noStoragePool(`no storage pool with matching name '${name}'`);
    }
    return pool;
  }

  /** @throws DaemonError noStoragePool */
  byUuid(uuid: string, name: string): StoragePool {
    const pool = this.all.find((candidate) => candidate.uuid === uuid);
    if (!pool) {
      throw noStoragePool(`no storage pool with matching uuid '${uuid}' (${name})`);
    }
    return pool;
  }

  /** @throws DaemonError noStorageVol */
  volumeByPath(path: string): { pool: StoragePool; volume: Volume } {
    for (const pool of this.all) {
      const volume = pool.volumes.find((candidate) => candidate.path === path);
      if (volume) {
        return { pool, volume };
      }
    }
    throw noStorageVol(`no storage vol with matching path '${path}'`);
  }
}

/** @throws DaemonError operationInvalid when it is not running. */
export function active(pool: StoragePool): StoragePool {
  if (!pool.isActive) {
    throw operationInvalid(ERROR_DOMAIN.storage, `storage pool '${pool.name}' is not active`);
  }
  return pool;
}
