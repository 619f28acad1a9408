/**
 * The doctor: one host looked at from the TCP port to the clock. It ends in time whatever the host does, since each step
 * has a limit of its own and a share of what is left, and it leaves no session behind.
 */
import type { LibvirtConnection } from '../../libvirt/connection.ts';
import type { HostExaminer, HostHealth } from '../../provider/host-health.ts';
import { ProviderError } from '../../provider/provider-error.ts';
import type { HostProbe } from '../../ssh/probe.ts';
import type { KvmHost } from '../provider-options.ts';
import { checkClock } from './clock-check.ts';
import { daemonCalls } from './daemon-calls.ts';
import { checkBridge, checkVersion, checkVirtType } from './daemon-checks.ts';
import { HostReport } from './host-report.ts';
import { checkPool, type ExaminedPool } from './pool-check.ts';
import { recordSshChecks } from './ssh-checks.ts';
import { checkTransport } from './transport-check.ts';

/** TCP, handshake and login; the rest of the time is for a daemon that may be slow to answer. */
const PROBE_LIMIT_MS = 10_000;
const LONGEST_CALL_MS = 20_000;
/** For deleting what was made and closing the sessions. */
const RESERVE_MS = 1_500;

export type ProbeHost = (
  host: string,
  limits: { readonly signal?: AbortSignal; readonly timeoutMs: number },
) => Promise<HostProbe>;

export interface HostExaminerOptions {
  readonly hosts: readonly KvmHost[];
  readonly probe: ProbeHost;
  /** Milliseconds since the epoch, by the clock that the hosts' are compared with. */
  readonly now: () => number;
  /** Monotonic milliseconds, for durations. */
  readonly monotonic: () => number;
  readonly randomUuid: () => string;
  /** When the invocation ends, in milliseconds since the epoch. */
  readonly deadlineAt: number;
  readonly signal?: AbortSignal;
}

export function createHostExaminer(options: HostExaminerOptions): HostExaminer {
  return {
    examineHost: async (name) => {
      const host = options.hosts.find((known) => known.name === name);
      if (host === undefined) throw new ProviderError('not-found', 'there is no such host', { host: name });
      return await examine(host, options);
    },
  };
}

async function examine(host: KvmHost, options: HostExaminerOptions): Promise<HostHealth> {
  const { signal, monotonic } = options;
  const endsAt = options.deadlineAt - RESERVE_MS;
  const limits = (ms: number) => ({
    // Never 0, which some would take for no limit at all.
    timeoutMs: Math.max(1, Math.min(ms, endsAt - options.now())),
    ...(signal === undefined ? {} : { signal }),
  });
  const report = new HostReport(host.name, monotonic);
  const probe = await options.probe(host.name, limits(PROBE_LIMIT_MS));
  recordSshChecks(report, probe);
  const { session } = probe;
  if (session !== null) {
    let connection: LibvirtConnection | null = null;
    try {
      connection = await checkTransport(report, { ...probe, session }, { now: monotonic, limits });
      if (connection !== null) {
        await checkDaemon(report, host, connection, () => limits(LONGEST_CALL_MS), options);
      }
    } finally {
      await connection?.close();
      await session.close();
    }
  }
  signal?.throwIfAborted();
  return report.build();
}

async function checkDaemon(
  report: HostReport,
  host: KvmHost,
  connection: LibvirtConnection,
  limits: () => { readonly timeoutMs: number; readonly signal?: AbortSignal },
  options: HostExaminerOptions,
): Promise<void> {
  const daemon = daemonCalls(connection, limits);
  const storage = async (): Promise<void> => {
    const usable: ExaminedPool[] = [];
    await report.run('pool', () => checkPool(daemon, host.pool, (found) => usable.push(found)));
    const [pool] = usable;
    if (pool !== undefined) await report.run('clock', () => checkClock(daemon, pool, options));
  };
  await Promise.all([
    report.run('libvirt-version', () => checkVersion(daemon)),
    report.run('virt-type', () => checkVirtType(daemon, host.virtType)),
    report.run('bridge', () => checkBridge(daemon, host.bridge)),
    storage(),
  ]);
}
