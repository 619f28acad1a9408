/**
 * Everything an embedded host consists of, apart from its connections: it outlives cuts and daemon restarts. Tests look
 * into it and change it (take a bridge away, fill the disk, silence a guest); the daemon only acts on it.
 */

import { AddressLeases } from './address-leases.ts';
import { DomainStore } from './domain-store.ts';
import type { BootReport } from './guest.ts';
import { HostFiles } from './host-files.ts';
import { PoolStore } from './pool-store.ts';

export interface HostStateOptions {
  /** The host's own name, as it answers to connectGetHostname. */
  readonly name: string;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** From start until the guest has its address and its agent answers. */
  readonly bootMs?: number;
  /** From then until cloud-init is done. */
  readonly cloudInitMs?: number;
  /** From a shutdown request until the guest is off. */
  readonly shutdownMs?: number;
  readonly bridges?: readonly string[];
  readonly virtTypes?: readonly string[];
  readonly memoryMiB?: number;
  readonly storageBytes?: number;
  /** Pools that run from the beginning. */
  readonly pools?: readonly { readonly name: string; readonly targetPath: string }[];
  /** The file system of another host: both then share their pools' directories. */
  readonly files?: HostFiles;
  /** Addresses to leave to other hosts, so that no two guests show the same one. */
  readonly skipAddresses?: number;
}

const DEFAULT_POOLS = [{ name: 'default', targetPath: '/var/lib/libvirt/images' }];

export class HostState {
  readonly name: string;
  readonly now: () => number;
  readonly files: HostFiles;
  readonly pools: PoolStore;
  readonly domains: DomainStore;
  readonly leases: AddressLeases;
  readonly bridges: Set<string>;
  readonly virtTypes: readonly string[];
  /** Every start that succeeded, oldest first; stays when the domain is gone. */
  readonly boots: (BootReport & { readonly name: string; readonly uuid: string })[] = [];
  bootMs: number;
  cloudInitMs: number;
  shutdownMs: number;
  memoryBytes: bigint;
  #lastTap = -1;

  constructor(options: HostStateOptions) {
    this.name = options.name;
    this.now = options.now ?? Date.now;
    this.bootMs = options.bootMs ?? 2_000;
    this.cloudInitMs = options.cloudInitMs ?? 1_000;
    this.shutdownMs = options.shutdownMs ?? 500;
    this.bridges = new Set(options.bridges ?? ['br0']);
    this.virtTypes = options.virtTypes ?? ['kvm', 'qemu'];
    this.memoryBytes = BigInt(options.memoryMiB ?? 65_536) * 1024n * 1024n;
    this.files =
      options.files ?? new HostFiles({ now: this.now, capacityBytes: options.storageBytes ?? 2 ** 40 });
    this.pools = new PoolStore(this.files);
    this.domains = new DomainStore({ virtTypes: this.virtTypes }, this.now);
    this.leases = new AddressLeases({
      skip: options.skipAddresses ?? 0,
      isHeld: (mac) => this.domains.isMacUsed(mac),
    });
    for (const pool of options.pools ?? DEFAULT_POOLS) {
      this.files.makeDirectory(pool.targetPath);
      this.pools.define(pool).start();
    }
  }

  get freeMemoryBytes(): bigint {
    const used = this.domains.all.reduce(
      (sum, { run }) => sum + (run?.definition.memoryKiB ?? 0n) * 1024n,
      0n,
    );
    return used > this.memoryBytes ? 0n : this.memoryBytes - used;
  }

  nextTap(): string {
    this.#lastTap += 1;
    return `vnet${this.#lastTap}`;
  }
}
