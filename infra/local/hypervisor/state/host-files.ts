/**
 * The file system below the storage pools: paths and bytes, nothing of libvirt. It stands apart from the pools because a
 * pool is only what libvirt last saw of a directory, and because two hosts may share one (an NFS pool).
 */
import { SparseFile } from './sparse-file.ts';

export interface HostFile {
  readonly bytes: SparseFile;
  /** Epoch milliseconds. */
  atime: number;
  mtime: number;
  ctime: number;
  readonly mode: string;
}

export class HostFiles {
  readonly #files = new Map<string, HostFile>();
  readonly #directories = new Set<string>();
  readonly #now: () => number;
  /** What all files together may take. */
  capacityBytes: number;

  constructor({ now, capacityBytes }: { readonly now: () => number; readonly capacityBytes: number }) {
    this.#now = now;
    this.capacityBytes = capacityBytes;
  }

  get allocatedBytes(): number {
    return [...this.#files.values()].reduce((sum, file) => sum + file.bytes.allocatedBytes, 0);
  }

  get availableBytes(): number {
    return Math.max(0, this.capacityBytes - this.allocatedBytes);
  }

  get paths(): string[] {
    return [...this.#files.keys()];
  }

  get(path: string): HostFile | undefined {
    return this.#files.get(path);
  }

  /** Replaces what stood there; readers of the old file keep it, as on Unix. */
  create(path: string, content: Uint8Array = new Uint8Array(0), mode = '0600'): HostFile {
    const now = this.#now();
    const file: HostFile = { bytes: new SparseFile(), atime: now, mtime: now, ctime: now, mode };
    file.bytes.write(0, content);
    this.#files.set(path, file);
    return file;
  }

  remove(path: string): boolean {
    return this.#files.delete(path);
  }

  touch(file: HostFile): void {
    file.mtime = this.#now();
    file.ctime = file.mtime;
  }

  makeDirectory(path: string): void {
    this.#directories.add(path);
  }

  hasDirectory(path: string): boolean {
    return this.#directories.has(path);
  }

  /** Names of the files directly in a directory. */
  namesIn(directory: string): string[] {
    return this.paths
      .filter((path) => path.startsWith(`${directory}/`))
      .map((path) => path.slice(directory.length + 1))
      .filter((name) => !name.includes('/'));
  }
}
