/** An embedded host with everything that a test wants wrong about it, and the examination of it. */
import {
  type EmbeddedHost,
  type EmbeddedHostOptions,
  startEmbeddedHost,
} from '../../../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../../../infra/local/hypervisor/ssh-key.ts';
import { createHostExaminer, type HostExaminerOptions } from '../../../../lib/kvm/doctor/examine-host.ts';
import type { KvmHost } from '../../../../lib/kvm/provider-options.ts';
import type { HostCheck, HostCheckName, HostHealth } from '../../../../lib/provider/host-health.ts';
import { parseKnownHosts } from '../../../../lib/ssh/known-hosts.ts';
import { probeHost } from '../../../../lib/ssh/probe.ts';
import type { SshTarget } from '../../../../lib/ssh/tunnel.ts';

export const clientKey = generateSshKey();

export interface Examination extends HostHealth {
  /** The checks that are not ok and were carried out. */
  readonly faults: Partial<Record<HostCheckName, string>>;
  readonly unchecked: readonly HostCheckName[];
  check(name: HostCheckName): HostCheck;
}

export interface ExaminedHost extends AsyncDisposable {
  readonly embedded: EmbeddedHost;
  examine(
    wrong?: {
      readonly target?: Partial<SshTarget>;
      readonly host?: Partial<KvmHost>;
    } & Partial<HostExaminerOptions>,
  ): Promise<Examination>;
}

export async function startExaminedHost(options: Partial<EmbeddedHostOptions> = {}): Promise<ExaminedHost> {
  const embedded = await startEmbeddedHost({
    name: 'kvm-a',
    authorizedKeys: [clientKey.publicKey],
    ...options,
  });
  return {
    embedded,
    examine: async ({ target = {}, host = {}, ...others } = {}) => {
      const examiner = createHostExaminer({
        hosts: [{ name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm', ...host }],
        probe: (_name, limits) =>
          probeHost(
            {
              address: embedded.address,
              port: embedded.port,
              user: embedded.user,
              privateKey: clientKey.privateKey,
              knownHosts: parseKnownHosts(embedded.knownHosts),
              socketPath: embedded.socketPath,
              transport: 'auto',
              ...target,
            },
            limits,
          ),
        now: Date.now,
        monotonic: () => performance.now(),
        randomUuid: () => crypto.randomUUID(),
        deadlineAt: Date.now() + 20_000,
        ...others,
      });
      return readHealth(await examiner.examineHost('kvm-a'));
    },
    [Symbol.asyncDispose]: () => embedded.close(),
  };
}

export function readHealth(health: HostHealth): Examination {
  const isUnchecked = ({ ok, detail }: HostCheck): boolean => !ok && detail.startsWith('not checked:');
  const faults: Partial<Record<HostCheckName, string>> = {};
  for (const check of health.checks) if (!check.ok && !isUnchecked(check)) faults[check.name] = check.detail;
  return {
    ...health,
    faults,
    unchecked: health.checks.filter(isUnchecked).map(({ name }) => name),
    check: (name) => {
      const found = health.checks.find((check) => check.name === name);
      if (found === undefined) throw new Error(`no check ${name}`);
      return found;
    },
  };
}

/** Resolves when nothing of an examination is left on the host; a test that waits in vain runs into its time limit. */
export async function untilLeft(host: EmbeddedHost): Promise<void> {
  while (host.sshConnections > 0 || host.libvirt.sessions > 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
