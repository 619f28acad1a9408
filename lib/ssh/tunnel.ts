/**
 * A byte stream to the daemon on a hypervisor, over SSH. The one entry of this folder: connects, verifies, logs in,
 * opens the way to the daemon, tries again where that can help, and leaves nothing behind when it fails.
 */
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from './backoff.ts';
import { CONNECT_STEPS } from './connect-failure.ts';
import { connectSsh, type Login } from './connection.ts';
import { trustHost } from './host-trust.ts';
import type { KnownHosts } from './known-hosts.ts';
import { Opening } from './opening.ts';
import { parsePrivateKey } from './private-key.ts';
import { SshError } from './ssh-error.ts';
import {
  bindToConnection,
  openFirst,
  type Transport,
  type TransportChoice,
  type Way,
  waysFor,
} from './transport.ts';

export interface SshTarget {
  /** Name or address; looked up in known_hosts exactly as it is written here. */
  readonly address: string;
  readonly port: number;
  readonly user: string;
  readonly privateKey: string | Buffer;
  readonly passphrase?: string | undefined;
  readonly knownHosts: KnownHosts;
  /** Absolute path on the host. */
  readonly socketPath: string;
  readonly transport: TransportChoice;
}

export interface TunnelOptions {
  /** For everything until the stream is there, retries included. */
  readonly timeoutMs: number;
  /** Gives the opening up at any moment; without effect on a tunnel that is open. */
  readonly signal?: AbortSignal | undefined;
  /** Uniform in [0, 1); for the jitter. */
  readonly random?: () => number;
  /** Must reject when the signal is aborted. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

export interface Tunnel {
  /** Ends when the daemon closes; destroyed with an SshError when the SSH connection dies. Never throws unheard. */
  readonly stream: Duplex;
  readonly transport: Transport;
  /** Frees everything. Idempotent, never rejects, waits for nobody. */
  close(): Promise<void>;
}

/**
 * @throws SshError exactly one, also when several things fail
 * @throws PrivateKeyError before anything is sent
 */
export async function openTunnel(target: SshTarget, options: TunnelOptions): Promise<Tunnel> {
  const { random = Math.random, sleep = defaultSleep, now = () => performance.now() } = options;
  const login: Login = {
    address: target.address,
    port: target.port,
    user: target.user,
    privateKey: parsePrivateKey(target.privateKey, target.passphrase),
    trust: trustHost(target.knownHosts, target.address, target.port),
  };
  const ways = waysFor(target.transport, target.socketPath);
  const opening = new Opening(`to ${target.user}@${target.address} port ${target.port}`, {
    timeoutMs: options.timeoutMs,
    signal: options.signal,
    now,
  });
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        return await openOnce(login, ways, opening);
      } catch (error) {
        opening.signal.throwIfAborted();
        if (!(error instanceof SshError) || !error.retryable) throw error;
        const pauseMs = backoffMs(error.reason, attempt, random);
        // A pause that reaches the deadline only hides the reason behind a timeout.
        if (pauseMs === null || pauseMs >= opening.remainingMs()) throw afterAttempts(error, attempt);
        opening.step = `waiting to try again after: ${error.message}`;
        await sleep(pauseMs, opening.signal).catch((cause: unknown) => {
          opening.signal.throwIfAborted();
          throw cause;
        });
      }
    }
  } finally {
    opening.end();
  }
}

async function openOnce(login: Login, ways: readonly Way[], opening: Opening): Promise<Tunnel> {
  const connection = await connectSsh(login, opening.signal, (stage) => {
    opening.step = CONNECT_STEPS[stage];
  });
  try {
    const { stream, transport } = await openFirst(ways, connection, opening.signal, (way) => {
      opening.step = `opening ${way.name}`;
    });
    bindToConnection(stream, connection);
    return {
      stream,
      transport,
      close: () => {
        stream.destroy();
        return connection.close();
      },
    };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function afterAttempts(error: SshError, attempts: number): SshError {
  if (attempts === 1) return error;
  return new SshError(error.reason, `${error.message} (${attempts} attempts)`, {
    cause: error,
    retryable: error.retryable,
  });
}

async function defaultSleep(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal });
}
