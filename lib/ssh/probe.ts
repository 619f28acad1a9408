/**
 * The way to a host taken step by step, each with its time, for whoever wants to know where it ends. The steps are those
 * of a tunnel and taken by the same code; only nothing is tried twice, since a doctor tells what it saw.
 */
import type { Duplex } from 'node:stream';
import { CONNECT_STEPS, type ConnectStage } from './connect-failure.ts';
import { connectSsh, type Login, type SshConnection } from './connection.ts';
import { fingerprint } from './fingerprint.ts';
import { distrustHost, type HostTrust, trustHost } from './host-trust.ts';
import { Opening } from './opening.ts';
import { parsePrivateKey } from './private-key.ts';
import { remoteText } from './remote-text.ts';
import { SshError } from './ssh-error.ts';
import { bindToConnection, type Transport, type TransportChoice, type Way, waysFor } from './transport.ts';
import type { SshTarget } from './tunnel.ts';

/** `handshake` ends when the host has presented its key, `host-key` when that is trusted and its signature verified. */
export type ProbeStepName = 'tcp' | 'handshake' | 'host-key' | 'login';

export interface ProbeStep {
  readonly name: ProbeStepName;
  readonly ms: number;
  /** Null when it succeeded. */
  readonly error: SshError | null;
}

export interface PublicKeyName {
  readonly type: string;
  /** As `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
}

export interface HostProbe {
  readonly target: Pick<SshTarget, 'address' | 'port' | 'user' | 'socketPath' | 'transport'>;
  /** Those that were taken, in order; only the last one can have failed. */
  readonly steps: readonly ProbeStep[];
  /** What the host presented, trusted or not; null when it did not come to that. */
  readonly hostKey: PublicKeyName | null;
  readonly loginKey: PublicKeyName;
  /** Null when a step failed. Whoever gets one must close it. */
  readonly session: ProbeSession | null;
}

export interface ProbeLimits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ProbeOptions extends ProbeLimits {
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

export interface ProbeWay {
  readonly transport: Transport;
  /** As in "the socket /run/…". */
  readonly name: string;
  /** Whether the configured transport would use it. */
  readonly isConfigured: boolean;
}

export interface ProbeSession {
  /** Every way to the daemon that there is, those of the configured transport and the others, each in its order. */
  readonly ways: readonly ProbeWay[];
  /** The stream is the caller's to destroy. @throws SshError */
  open(way: ProbeWay, limits: ProbeLimits): Promise<Duplex>;
  /** Idempotent, never rejects. */
  close(): Promise<void>;
}

/**
 * A host whose key is not on file is connected to as well, to say which key it has; it is never logged in to.
 * @throws PrivateKeyError before anything is sent
 * @throws SshError `aborted` by the caller's signal; everything else is a failed step
 */
export async function probeHost(target: SshTarget, options: ProbeOptions): Promise<HostProbe> {
  const privateKey = parsePrivateKey(target.privateKey, target.passphrase);
  const { address, port, user, socketPath, transport } = target;
  const now = options.now ?? (() => performance.now());
  const opening = new Opening(`to ${user}@${address} port ${port}`, { ...options, now });
  const connect = (trust: HostTrust): Promise<Attempt> =>
    attempt({ address, port, user, privateKey, trust }, opening, now);
  try {
    const { connection, steps, hostKey } = await connectOrIdentify(connect, target);
    return {
      target: { address, port, user, socketPath, transport },
      steps,
      hostKey,
      loginKey: { type: privateKey.type, fingerprint: privateKey.fingerprint },
      session: connection && openSession(connection, transport, socketPath, now),
    };
  } finally {
    opening.end();
  }
}

interface Attempt {
  readonly connection: SshConnection | null;
  readonly steps: readonly ProbeStep[];
  readonly hostKey: PublicKeyName | null;
}

async function connectOrIdentify(
  connect: (trust: HostTrust) => Promise<Attempt>,
  { knownHosts, address, port }: SshTarget,
): Promise<Attempt> {
  let trust: HostTrust;
  try {
    trust = trustHost(knownHosts, address, port);
  } catch (error) {
    if (!(error instanceof SshError)) throw error;
    return await connect(distrustHost(address, port, error));
  }
  const first = await connect(trust);
  if (first.steps.at(-1)?.error?.reason !== 'handshake-failed' || first.hostKey !== null) return first;
  // No common algorithm? With every key type on offer the host shows which one it has.
  const otherType = new SshError(
    'host-key-changed',
    `${trust.name} has no host key of the types that known_hosts has for it (${trust.algorithms.join(', ')})`,
  );
  const second = await connect(distrustHost(address, port, otherType));
  return second.hostKey === null ? first : second;
}

async function attempt(login: Login, opening: Opening, now: () => number): Promise<Attempt> {
  const steps: ProbeStep[] = [];
  let current: ProbeStepName = 'tcp';
  let since = now();
  let hostKey: PublicKeyName | null = null;
  const finish = (error: SshError | null): void => {
    const at = now();
    steps.push({ name: current, ms: at - since, error });
    since = at;
  };
  const advance = (next: ProbeStepName): void => {
    finish(null);
    current = next;
  };
  const onStage = (stage: ConnectStage): void => {
    opening.step = CONNECT_STEPS[stage];
    if (stage === 'handshake') advance('handshake');
    else if (stage === 'login') advance('login');
    else if (stage === 'connected') finish(null);
  };
  const judge = (key: Buffer): SshError | null => {
    hostKey = { type: keyType(key), fingerprint: fingerprint(key) };
    advance('host-key');
    return login.trust.judge(key);
  };
  try {
    const connection = await connectSsh(
      { ...login, trust: { ...login.trust, judge } },
      opening.signal,
      onStage,
    );
    return { connection, steps, hostKey };
  } catch (error) {
    if (!(error instanceof SshError) || error.reason === 'aborted') throw error;
    finish(error);
    return { connection: null, steps, hostKey };
  }
}

function openSession(
  connection: SshConnection,
  choice: TransportChoice,
  socketPath: string,
  now: () => number,
): ProbeSession {
  const configured = waysFor(choice, socketPath).map(({ name }) => name);
  const ways = waysFor('auto', socketPath).map((way): ProbeWay & Way => ({
    ...way,
    isConfigured: configured.includes(way.name),
  }));
  return {
    ways,
    open: async ({ name }, limits) => {
      const way = ways.find((known) => known.name === name);
      if (way === undefined) throw new TypeError(`there is no way ${name}`);
      const opening = new Opening(`through ${name}`, { ...limits, now });
      opening.step = `opening ${name}`;
      try {
        const stream = await way.open(connection, opening.signal, []);
        bindToConnection(stream, connection);
        return stream;
      } finally {
        opening.end();
      }
    },
    close: () => connection.close(),
  };
}

/** The first string of a public key in wire format (RFC 4253 section 6.6): from the other side, and not yet verified. */
function keyType(key: Buffer): string {
  return key.length < 4 ? 'unknown' : remoteText(key.toString('latin1', 4, 4 + key.readUInt32BE(0)));
}
