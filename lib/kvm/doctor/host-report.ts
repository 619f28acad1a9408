/**
 * The report while it is being made. It holds what depends on what, so that one failure is told once and all that hangs
 * on it says only that it was not looked at.
 */
import {
  HOST_CHECKS,
  type HostCheck,
  type HostCheckName,
  type HostHealth,
} from '../../provider/host-health.ts';
import { describeFinding, type Finding, findingOfError } from './finding.ts';

/** Without the one on the right, the one on the left cannot be looked at. */
const NEEDS: Readonly<Record<HostCheckName, HostCheckName | null>> = {
  tcp: null,
  'ssh-handshake': 'tcp',
  'host-key': 'ssh-handshake',
  authentication: 'host-key',
  transport: 'authentication',
  'libvirt-session': 'transport',
  'libvirt-version': 'libvirt-session',
  'virt-type': 'libvirt-session',
  pool: 'libvirt-session',
  bridge: 'libvirt-session',
  clock: 'pool',
};

export class HostReport {
  readonly #host: string;
  readonly #now: () => number;
  readonly #checks = new Map<HostCheckName, HostCheck>();

  /** @param now monotonic milliseconds */
  constructor(host: string, now: () => number) {
    this.#host = host;
    this.#now = now;
  }

  record(name: HostCheckName, finding: Finding, ms: number): void {
    this.#checks.set(name, { name, ok: finding.ok, detail: describeFinding(finding), ms: Math.round(ms) });
  }

  /** Never rejects: what the check throws is its finding. */
  async run(name: HostCheckName, check: () => Promise<Finding>): Promise<void> {
    const startedAt = this.#now();
    const finding = await check().catch(findingOfError);
    this.record(name, finding, this.#now() - startedAt);
  }

  /** Complete, whatever was recorded. */
  build(): HostHealth {
    const checks = HOST_CHECKS.map((name) => this.#checks.get(name) ?? this.#unchecked(name));
    return { host: this.#host, ok: checks.every(({ ok }) => ok), checks };
  }

  #unchecked(name: HostCheckName): HostCheck {
    const failed = this.#failedBefore(name);
    const why = failed === null ? 'there was no time left' : `it needs ${failed}`;
    return { name, ok: false, detail: `not checked: ${why}`, ms: 0 };
  }

  /** The check that failed first on the way to this one. */
  #failedBefore(name: HostCheckName): HostCheckName | null {
    const needed = NEEDS[name];
    if (needed === null) return null;
    return this.#failedBefore(needed) ?? (this.#checks.get(needed)?.ok === false ? needed : null);
  }
}
