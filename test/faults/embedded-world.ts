/**
 * A small world for fault suites: one embedded libvirtd without SSH in front, the provider harness on it, and the
 * questions that every schedule must be able to answer afterwards.
 */
import { createHash } from 'node:crypto';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../infra/local/hypervisor/embedded-libvirt.ts';
import { collect } from '../../lib/gc/collect.ts';
import { parseDomainXml } from '../../lib/kvm/domain-xml.ts';
import type { Identity } from '../../lib/kvm/metadata.ts';
import type { KvmHost } from '../../lib/kvm/provider-options.ts';
import { seedDigest } from '../../lib/kvm/specification.ts';
import { parseVolumeName, uuidPart, volumeName } from '../../lib/kvm/volume-names.ts';
import { FleetHarness, HostProbe, type ImageServer } from '../contract/fleet-harness.ts';

export const FLEET = 'faults';
export const HOST: KvmHost = { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' };

export interface WorldOptions {
  readonly image: ImageServer;
  /** Whether the image stands in the pool from the beginning. */
  readonly imagePresent: boolean;
}

export class EmbeddedWorld implements AsyncDisposable {
  readonly daemon: EmbeddedLibvirt;
  readonly fleet: FleetHarness;

  private constructor(daemon: EmbeddedLibvirt, fleet: FleetHarness) {
    this.daemon = daemon;
    this.fleet = fleet;
  }

  static async start({ image, imagePresent }: WorldOptions): Promise<EmbeddedWorld> {
    const fleet: FleetHarness = new FleetHarness({
      fleet: FLEET,
      hosts: [HOST],
      dial: async () => ({ stream: daemon.connect(), close: async () => undefined }),
      imageUrl: image.url,
      imageChecksum: image.checksum,
    });
    // One clock for both sides: what the collector thinks old must be old on the host as well.
    const daemon = createEmbeddedLibvirt({ name: HOST.name, bootMs: 0, now: fleet.now });
    const world = new EmbeddedWorld(daemon, fleet);
    if (imagePresent) await fleet.warmUp(HOST.name);
    daemon.faults.reset();
    return world;
  }

  /** The queue, by a worker, and the collector in mode `delete`, hour after hour, until nothing more can happen. */
  async settle(hours = 6): Promise<void> {
    this.daemon.faults.clear();
    const policy = { graceSeconds: 3600, deleteSeconds: 600, maxDeletes: 100, maxPercent: 100 };
    for (let hour = 0; hour < hours; hour++) {
      for (let minute = 0; minute < 60; minute += 10) {
        await this.fleet.drain();
        this.fleet.advance(600);
      }
      await this.fleet.use((provider) => collect(provider, policy, 'delete', this.fleet.now));
    }
  }

  /**
   * What is on the host: VMs that run, and everything that breaks a rule. The domains are read as libvirt shows them,
   * through a session of the test's own.
   */
  async inspect(): Promise<{
    readonly running: string[];
    readonly broken: string[];
    readonly leftovers: string[];
  }> {
    const probe = await HostProbe.open(this.fleet.options.dial, HOST);
    try {
      const running: string[] = [];
      const broken: string[] = [];
      const leftovers: string[] = [];
      const parts = new Set<string>();
      for (const name of await probe.domainNames()) {
        const { metadata, uuid } = parseDomainXml(await probe.domainXml(name));
        parts.add(uuidPart(uuid));
        const isRunning = (await probe.domainState(name)) === 1;
        if (metadata.identity === null) broken.push(`${name} has no record`);
        else if (metadata.deleting !== null) leftovers.push(`${name} is marked deleting`);
        else if (isRunning && metadata.phase?.phase === 'ready') {
          running.push(name);
          broken.push(...(await this.#judgeSeed(probe, metadata.identity)));
        } else if (isRunning) broken.push(`${name} runs in phase ${metadata.phase?.phase}`);
        else leftovers.push(`${name} is defined in phase ${metadata.phase?.phase}`);
      }
      for (const volume of await probe.volumeNames()) {
        const owner = parseVolumeName(volume);
        if (owner !== null && !parts.has(owner.uuidPart)) leftovers.push(volume);
      }
      return { running, broken, leftovers };
    } finally {
      await probe.close();
    }
  }

  /** Whenever it booted, it must have found the very seed that its identity describes. */
  async #judgeSeed(probe: HostProbe, identity: Identity): Promise<string[]> {
    const seed = await probe.volumeBytes(volumeName(identity, 'seed'));
    if (seedDigest(identity.uuid, seed) !== identity.seedDigest) return [`${identity.name} has another seed`];
    const sha256 = createHash('sha256').update(seed).digest('hex');
    const boots = this.daemon.state.boots.filter(({ uuid }) => uuid === identity.uuid);
    return boots.flatMap(({ seed: booted }) =>
      booted?.sha256 === sha256 ? [] : [`${identity.name} booted with seed ${booted?.sha256 ?? 'none'}`],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.daemon.restart();
  }
}
