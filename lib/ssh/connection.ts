/**
 * One SSH connection: TCP, handshake, host key, login. Turns ssh2's events, which may come in any number, in any order
 * and after the end, into one settlement and one signal of loss.
 */
import { Socket } from 'node:net';
import ssh2, { type CipherAlgorithm, type Client, type PublicKeyAuthMethod } from 'ssh2';
import { carryAcknowledgements, sendNothing } from './ack-carrier.ts';
import { type ConnectStage, explainClose, explainError } from './connect-failure.ts';
import type { HostTrust } from './host-trust.ts';
import type { PrivateKey } from './private-key.ts';
import type { SshError } from './ssh-error.ts';

export interface Login {
  readonly address: string;
  readonly port: number;
  readonly user: string;
  readonly privateKey: PrivateKey;
  readonly trust: HostTrust;
}

export interface SshConnection {
  readonly client: Client;
  readonly socket: Socket;
  /** Aborted with the SshError once the connection is gone, for whatever reason. */
  readonly lost: AbortSignal;
  /** Says goodbye and frees the socket. Idempotent, never rejects, does not wait for the server. */
  close(): Promise<void>;
}

/** AES-GCM runs in OpenSSL here and in sshd; ChaCha20-Poly1305 is a third slower without ssh2's native addon. */
const CIPHERS: CipherAlgorithm[] = [
  'aes256-gcm@openssh.com',
  'aes128-gcm@openssh.com',
  'aes256-ctr',
  'aes192-ctr',
  'aes128-ctr',
  'chacha20-poly1305@openssh.com',
];

/** For the first line a server sends, where one that turns us away says why. */
const GREETING_BYTES = 256;
/** Between two addresses of one name: Node's own 250 ms gives up on a host behind a slow line. */
const ADDRESS_ATTEMPT_MS = 2_000;
/** For the last packet to leave our buffers when the peer does not read. */
const CLOSE_GRACE_MS = 250;

/**
 * @param signal ends the attempt with its reason; without effect once connected
 * @param onStage told each step as it begins
 * @throws SshError
 */
export function connectSsh(
  login: Login,
  signal: AbortSignal,
  onStage: (stage: ConnectStage) => void,
): Promise<SshConnection> {
  const socket = new Socket();
  const client = new ssh2.Client();
  const lost = new AbortController();
  let stage: ConnectStage = 'tcp';
  let greeting = '';
  let refusal: SshError | null = null;

  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const enter = (next: ConnectStage): void => {
      stage = next;
      onStage(next);
    };
    // May run many times and after `ready`: the first reason stands, both for the promise and for the signal.
    const fail = (error: unknown): void => {
      signal.removeEventListener('abort', onAbort);
      lost.abort(error);
      reject(error);
      socket.destroy();
    };
    const onAbort = (): void => fail(signal.reason);
    const onGreeting = (chunk: Buffer): void => {
      greeting += chunk.toString('latin1', 0, GREETING_BYTES - greeting.length);
      if (greeting.length === GREETING_BYTES || stage !== 'handshake') socket.off('data', onGreeting);
    };
    const context = () => ({ stage, login, greeting });

    signal.addEventListener('abort', onAbort);
    // These stay for good: ssh2 reports a late ECONNRESET as an `error` too, and an error without a listener throws.
    client.on('error', (error) => fail(refusal ?? explainError(error, context())));
    client.on('end', () => fail(explainClose(context())));
    client.on('close', () => fail(explainClose(context())));
    client.on('handshake', () => {
      if (stage === 'handshake') enter('login');
    });
    client.on('ready', () => {
      enter('connected');
      carryAcknowledgements(socket, () => sendNothing(client));
      signal.removeEventListener('abort', onAbort);
      resolve({ client, socket, lost: lost.signal, close: () => closeConnection(client, socket) });
    });
    socket.once('connect', () => enter('handshake'));

    enter('tcp');
    // Nagle would hold each small call back until the last one is acknowledged: 40 ms a call.
    socket.setNoDelay(true);
    socket.connect({
      host: login.address,
      port: login.port,
      autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
    });
    const publicKey: PublicKeyAuthMethod = {
      type: 'publickey',
      username: login.user,
      key: login.privateKey.key,
    };
    try {
      client.connect({
        sock: socket,
        username: login.user,
        // The whole list of methods: no `none` first, no agent, no password.
        authHandler: [publicKey],
        hostVerifier: (key: Buffer) => {
          refusal = login.trust.judge(key);
          return refusal === null;
        },
        algorithms: { serverHostKey: login.trust.algorithms, cipher: CIPHERS, compress: ['none'] },
        // The deadline is the caller's; and other servers than OpenSSH know its extensions as well.
        readyTimeout: 0,
        strictVendor: false,
      });
    } catch (error) {
      // Thrown before a byte is sent: an algorithm that this build of OpenSSL does not have.
      enter('handshake');
      fail(explainError(error instanceof Error ? error : new Error(String(error)), context()));
      return;
    }
    // After ssh2 has paused the socket: a `data` listener on a fresh one would start it.
    socket.on('data', onGreeting);
  });
}

function closeConnection(client: Client, socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) {
      resolve();
      return;
    }
    const force = setTimeout(() => socket.destroy(), CLOSE_GRACE_MS);
    socket.once('close', () => {
      clearTimeout(force);
      resolve();
    });
    client.end();
    socket.destroySoon();
  });
}
