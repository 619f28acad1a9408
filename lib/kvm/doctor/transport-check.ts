/**
 * Which ways lead from the SSH account to the daemon. All of them are tried, also those that are not configured: an
 * operator wants to know what else works. The session on the way that the product would use is kept for the rest.
 */
import { LibvirtConnection } from '../../libvirt/connection.ts';
import { ERROR_CODE, LibvirtAuthError, LibvirtError, LibvirtTransportError } from '../../libvirt/errors.ts';
import { HELPER_COMMAND } from '../../ssh/helper-command.ts';
import type { HostProbe, ProbeSession, ProbeWay } from '../../ssh/probe.ts';
import { SshError } from '../../ssh/ssh-error.ts';
import { type Finding, fault, findingOfError, fine } from './finding.ts';
import type { HostReport } from './host-report.ts';

const OPEN_LIMIT_MS = 4_000;
const SESSION_LIMIT_MS = 5_000;

export interface TransportOptions {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** The limits of one step, at most `ms` long. */
  readonly limits: (ms: number) => { readonly timeoutMs: number; readonly signal?: AbortSignal };
}

/** One way and how far it led. `refused`: sshd or the helper does not let us through to a daemon. */
export type WayAttempt = {
  readonly way: ProbeWay;
  readonly openMs: number;
  readonly sessionMs: number;
} /** `isStarted`: a stream was opened first, and ended with the error. */ & (
  | { readonly outcome: 'refused'; readonly error: SshError; readonly isStarted: boolean }
  | { readonly outcome: 'no-session'; readonly error: unknown }
  | { readonly outcome: 'session'; readonly connection: LibvirtConnection }
);

/** Records `transport` and `libvirt-session`. @returns the session, which the caller must close, or null. */
export async function checkTransport(
  report: HostReport,
  probe: HostProbe & { readonly session: ProbeSession },
  options: TransportOptions,
): Promise<LibvirtConnection | null> {
  // At once: each waits for the same round trips, and a way that hangs must not use up the time of the others.
  const attempts = await Promise.all(probe.session.ways.map((way) => tryWay(probe.session, way, options)));
  const used = attempts.find(({ way, outcome }) => way.isConfigured && outcome !== 'refused');
  await Promise.all(
    attempts.map((attempt) =>
      attempt.outcome === 'session' && attempt !== used ? attempt.connection.close() : undefined,
    ),
  );
  const openMs = Math.max(...attempts.map((attempt) => attempt.openMs));
  report.record('transport', judgeTransports(attempts, probe.target), openMs);
  if (used === undefined) return null;
  report.record('libvirt-session', judgeSession(used, probe.target.user), used.sessionMs);
  return used.outcome === 'session' ? used.connection : null;
}

async function tryWay(session: ProbeSession, way: ProbeWay, options: TransportOptions): Promise<WayAttempt> {
  const { now, limits } = options;
  const startedAt = now();
  let openedAt = startedAt;
  const times = () => ({ openMs: openedAt - startedAt, sessionMs: now() - openedAt });
  try {
    const stream = await session.open(way, limits(OPEN_LIMIT_MS));
    openedAt = now();
    const connection = await LibvirtConnection.open(stream, limits(SESSION_LIMIT_MS));
    return { way, outcome: 'session', connection, ...times() };
  } catch (error) {
    if (openedAt === startedAt) openedAt = now();
    // A helper that cannot run or reach the daemon is started all the same, and ends the stream with its complaint.
    const refusal = error instanceof LibvirtTransportError ? error.cause : error;
    return refusal instanceof SshError
      ? { way, outcome: 'refused', error: refusal, isStarted: error !== refusal, ...times() }
      : { way, outcome: 'no-session', error, ...times() };
  }
}

/** Pure. */
export function judgeTransports(attempts: readonly WayAttempt[], target: HostProbe['target']): Finding {
  const used = attempts.find(({ way, outcome }) => way.isConfigured && outcome !== 'refused');
  // Of two sockets the one that leads somewhere is spoken of, else the first.
  const perTransport = (['socket', 'helper'] as const).flatMap((transport) => {
    const all = attempts.filter(({ way }) => way.transport === transport);
    const told = all.find(({ outcome }) => outcome !== 'refused') ?? all[0];
    return told === undefined ? [] : [told];
  });
  if (used !== undefined) {
    const others = perTransport.filter(({ way }) => way.transport !== used.way.transport);
    return fine(
      [`${used.way.name} is used`, ...others.map((other) => describeOther(other, target))].join('; '),
    );
  }
  const found = perTransport.map(describeAttempt).join('; ');
  const working = perTransport.find(({ outcome }) => outcome !== 'refused');
  if (working !== undefined) {
    return fault(found, `configure \`transport: ${working.way.transport}\` for this host`);
  }
  const [first] = perTransport.filter(({ way }) => way.isConfigured);
  return fault(found, remedy(first, perTransport, target));
}

function describeAttempt(attempt: WayAttempt): string {
  const { way, outcome } = attempt;
  return outcome === 'refused' ? `${way.name} is refused (${refusal(attempt.error)})` : `${way.name} works`;
}

function describeOther(attempt: WayAttempt, target: HostProbe['target']): string {
  if (attempt.outcome !== 'refused') return `${attempt.way.name} works too`;
  return `${describeAttempt(attempt)}, which is no fault: it would need ${needs(attempt.way, target)}`;
}

function refusal(error: SshError): string {
  if (error.reason === 'forward-prohibited') return 'sshd’s policy forbids the forward';
  if (error.reason === 'socket-unreachable') {
    return 'sshd may not or could not connect to it, and does not say which';
  }
  return error.message;
}

function needs({ transport }: ProbeWay, { socketPath, user }: HostProbe['target']): string {
  return transport === 'helper'
    ? `a key bound to it by command="${HELPER_COMMAND}",restrict in ~${user}/.ssh/authorized_keys`
    : `AllowTcpForwarding local, AllowStreamLocalForwarding local and PermitOpen [${socketPath}]:* for ${user} in sshd_config`;
}

function remedy(
  wanted: WayAttempt | undefined,
  attempts: readonly WayAttempt[],
  target: HostProbe['target'],
): string {
  const { socketPath, user } = target;
  const helper = attempts.find(({ way }) => way.transport === 'helper');
  // It ran and found no daemon: with that the socket's own silence is explained too.
  if (helper?.outcome === 'refused' && helper.isStarted && helper.error.retryable) {
    return 'start the daemon on the host (systemctl enable --now libvirtd)';
  }
  if (wanted === helper && helper?.outcome === 'refused' && helper.isStarted) {
    return 'install virt-ssh-helper on the host (Debian: libvirt-daemon 6.8 or newer)';
  }
  if (wanted?.outcome === 'refused' && wanted.error.reason === 'socket-unreachable') {
    return (
      `run \`sudo -u ${user} test -w ${socketPath} && echo policy || echo daemon\` on the host; \`policy\`: give ` +
      `${needs(wanted.way, target)}; \`daemon\`: start libvirtd and put ${user} into the group libvirt`
    );
  }
  return wanted === undefined ? 'see docs/hosts.md' : `set ${needs(wanted.way, target)}`;
}

function judgeSession(attempt: WayAttempt, user: string): Finding {
  if (attempt.outcome === 'session') return fine('qemu:///system is open');
  const { error } = attempt;
  if (error instanceof LibvirtAuthError) {
    const said = error.cause instanceof LibvirtError ? error.cause.message : error.message;
    return fault(
      `the daemon does not let ${user} in (${said})`,
      `put the account into the daemon’s group on the host (Debian: usermod -aG libvirt ${user})`,
    );
  }
  if (error instanceof LibvirtError && NO_DRIVER.includes(error.code)) {
    return fault(error.message, 'install the QEMU driver on the host (Debian: libvirt-daemon-driver-qemu)');
  }
  return findingOfError(error);
}

const NO_DRIVER: readonly number[] = [ERROR_CODE.noConnect, ERROR_CODE.openFailed, ERROR_CODE.noSupport];
