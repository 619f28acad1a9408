/**
 * Which way to the daemon: the forwarded socket, the helper command, or whichever of them this account may use. All
 * are tried on the one connection that is already there.
 */
import type { Duplex } from 'node:stream';
import type { SshConnection } from './connection.ts';
import { runHelper } from './helper-command.ts';
import { forwardToSocket } from './socket-forward.ts';
import { SshError, type SshErrorReason } from './ssh-error.ts';

export type Transport = 'socket' | 'helper';
export type TransportChoice = Transport | 'auto';

export interface Way {
  readonly transport: Transport;
  /** As the end of "waiting for …". */
  readonly name: string;
  /** @param refusals of the ways tried before */
  open(connection: SshConnection, signal: AbortSignal, refusals: readonly SshError[]): Promise<Duplex>;
}

/** libvirtd's, and virtproxyd's where the daemons are modular. */
export const DEFAULT_SOCKET_PATH = '/run/libvirt/libvirt-sock';
/** The modular QEMU daemon's, which hands storage calls on to virtstoraged by itself. */
const MODULAR_SOCKET_PATH = '/run/libvirt/virtqemud-sock';

/** A refusal that another way may not meet; anything else concerns the connection as a whole. */
const REFUSALS: readonly SshErrorReason[] = ['forward-prohibited', 'socket-unreachable', 'helper-failed'];

/**
 * The ways in the order they are tried. The modular socket stands in only for the default path: who names a path
 * means that one.
 */
export function waysFor(choice: TransportChoice, socketPath: string): readonly Way[] {
  const paths = socketPath === DEFAULT_SOCKET_PATH ? [socketPath, MODULAR_SOCKET_PATH] : [socketPath];
  const sockets = paths.map(
    (path): Way => ({
      transport: 'socket',
      name: `the socket ${path}`,
      open: (connection, signal) => forwardToSocket(connection, path, signal),
    }),
  );
  const helper: Way = { transport: 'helper', name: 'virt-ssh-helper', open: runHelper };
  if (choice === 'socket') return sockets;
  return choice === 'helper' ? [helper] : [...sockets, helper];
}

/**
 * @throws SshError the only refusal, or one that names all of them: retryable if any of them is
 */
export async function openFirst(
  ways: readonly Way[],
  connection: SshConnection,
  signal: AbortSignal,
  onTry: (way: Way) => void,
): Promise<{ stream: Duplex; transport: Transport }> {
  const refusals: SshError[] = [];
  for (const way of ways) {
    onTry(way);
    try {
      return { stream: await way.open(connection, signal, refusals), transport: way.transport };
    } catch (error) {
      if (!(error instanceof SshError) || !REFUSALS.includes(error.reason)) throw error;
      refusals.push(error);
    }
  }
  throw combine(refusals);
}

/**
 * The stream ends with the connection that carries it, which ssh2 does not see to.
 * @throws what ended either of them in the very packet that opened the stream, before anyone could listen
 */
export function bindToConnection(stream: Duplex, { lost }: SshConnection): void {
  if (stream.errored) throw stream.errored;
  lost.throwIfAborted();
  lost.addEventListener('abort', () => stream.destroy(lost.reason), { once: true });
}

function combine(refusals: readonly SshError[]): SshError {
  const decisive = refusals.find(({ retryable }) => retryable) ?? refusals[0];
  if (!decisive || refusals.length === 1)
    return decisive ?? new SshError('socket-unreachable', 'no way to try');
  return new SshError(decisive.reason, refusals.map(({ message }) => message).join('; then '), {
    cause: new AggregateError(refusals),
    retryable: decisive.retryable,
  });
}
