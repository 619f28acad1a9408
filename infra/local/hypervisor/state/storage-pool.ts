/**
 * A directory pool as libvirt sees it: the volumes it knows of, which are those it made and those it found at the last
 * refresh. What a volume holds is read from its file at every question, as libvirt does.
 */
import { randomUUID } from 'node:crypto';
import {
  ERRNO,
  ERROR_DOMAIN,
  noStorageVol,
  operationInvalid,
  storageVolExists,
  systemError,
} from '../daemon/daemon-error.ts';
import type { HostFile, HostFiles } from './host-files.ts';
import { QCOW2_HEADER_BYTES, type Qcow2Backing, readQcow2Header } from './qcow2-image.ts';

export interface Volume {
  readonly name: string;
  readonly path: string;
  /** As declared; what the file holds may differ. */
  readonly format: string;
  /** Its create has not answered yet: libvirt refuses to delete or write it. */
  isBuilding: boolean;
}

/** What libvirt finds out about a volume when asked. Sizes in bytes. */
export interface VolumeInspection {
  readonly capacity: number;
  readonly allocation: number;
  readonly physical: number;
  readonly format: string;
  readonly compat: string | undefined;
  readonly backing: Qcow2Backing | undefined;
  readonly file: HostFile;
}

export class StoragePool {
  readonly name: string;
  readonly uuid: string;
  readonly targetPath: string;
  isActive = false;
  autostart = false;
  readonly #volumes = new Map<string, Volume>();
  readonly #files: HostFiles;

  constructor(pool: { name: string; uuid?: string | undefined; targetPath: string; files: HostFiles }) {
    this.name = pool.name;
    this.uuid = pool.uuid ?? randomUUID();
    this.targetPath = pool.targetPath;
    this.#files = pool.files;
  }

  get volumes(): Volume[] {
    return [...this.#volumes.values()];
  }

  /** @throws DaemonError systemError ENOENT without its directory, operationInvalid when it runs. */
  start(): void {
    if (this.isActive) {
      throw operationInvalid(ERROR_DOMAIN.storage, `storage pool '${this.name}' is already active`);
    }
    if (!this.#files.hasDirectory(this.targetPath)) {
      throw systemError(
        ERROR_DOMAIN.none,
        ERRNO.noEntry,
        `cannot open directory '${this.targetPath}': No such file or directory`,
      );
    }
    this.isActive = true;
    this.refresh();
  }

  stop(): void {
    this.isActive = false;
    this.#volumes.clear();
  }

  /** Forgets files that are gone and finds those that appeared. */
  refresh(): void {
    const names = new Set(this.#files.namesIn(this.targetPath));
    for (const name of this.#volumes.keys()) {
      if (!names.has(name)) {
        this.#volumes.delete(name);
      }
    }
    for (const name of names) {
      const path = `${this.targetPath}/${name}`;
      this.#volumes.set(name, { name, path, format: this.#probe(path), isBuilding: false });
    }
  }

  /** @throws DaemonError noStorageVol */
  volume(name: string): Volume {
    const volume = this.#volumes.get(name);
    if (!volume) {
      throw noStorageVol(`no storage vol with matching name '${name}'`);
    }
    return volume;
  }

  /**
   * Takes the name: from here on nobody else gets it, though the volume is not usable before `isBuilding` is false.
   * @throws DaemonError storageVolExist, or operationInvalid for a file that is there and not yet known to the pool.
   */
  reserve(name: string, format: string): Volume {
    if (this.#volumes.has(name)) {
      throw storageVolExists(name);
    }
    const path = `${this.targetPath}/${name}`;
    if (this.#files.get(path)) {
      throw operationInvalid(ERROR_DOMAIN.storage, `volume target path '${path}' already exists`);
    }
    const volume: Volume = { name, path, format, isBuilding: true };
    this.#volumes.set(name, volume);
    return volume;
  }

  /** Takes the volume out of the pool; a file that is already gone is no error. */
  remove(volume: Volume): void {
    this.#files.remove(volume.path);
    this.#volumes.delete(volume.name);
  }

  /** @throws DaemonError noStorageVol when the file behind it is gone. */
  inspect(volume: Volume): VolumeInspection {
    const file = this.#files.get(volume.path);
    if (!file) {
      throw noStorageVol(`no storage vol with matching path '${volume.path}'`);
    }
    const header = readQcow2Header(file.bytes.read(0, QCOW2_HEADER_BYTES));
    return {
      capacity: header?.virtualSizeBytes ?? file.bytes.sizeBytes,
      allocation: file.bytes.allocatedBytes,
      physical: file.bytes.sizeBytes,
      format: header ? 'qcow2' : volume.isBuilding ? volume.format : 'raw',
      compat: header && (header.version >= 3 ? '1.1' : '0.10'),
      backing: header?.backing,
      file,
    };
  }

  #probe(path: string): string {
    const file = this.#files.get(path);
    return file && readQcow2Header(file.bytes.read(0, QCOW2_HEADER_BYTES)) ? 'qcow2' : 'raw';
  }
}

/** @throws DaemonError operationInvalid while its create has not answered. */
export function refuseWhileBuilding(volume: Volume): void {
  if (volume.isBuilding) {
    throw operationInvalid(ERROR_DOMAIN.storage, `volume '${volume.name}' is still being allocated.`);
  }
}
