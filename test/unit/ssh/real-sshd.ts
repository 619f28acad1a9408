/**
 * A real sshd of its own on a loopback port, for the user who runs the tests, with a key and a configuration of its
 * own. Nothing of the machine's sshd is read or changed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { KeyDir, KeyPair } from './keys.ts';

const SSHD = '/usr/sbin/sshd';
/** sshd started by root refuses to run without it; the package's own service makes it at boot. */
const PRIVILEGE_SEPARATION_DIR = '/run/sshd';

/** Why the tests with a real sshd cannot run here; null: they can. */
export const NO_SSHD: string | null = existsSync(SSHD) ? null : `${SSHD} is missing: install openssh-server`;

export interface RealSshd {
  readonly port: number;
  readonly user: string;
  /** known_hosts line. */
  readonly knownHosts: string;
  /** What it has written to its log so far. */
  log(): string;
  stop(): Promise<void>;
}

export interface RealSshdOptions {
  readonly name: string;
  readonly hostKey: KeyPair;
  readonly clientKey: KeyPair;
  /** Options before the key in authorized_keys. */
  readonly keyOptions?: string;
  /** sshd_config lines; sshd takes the first value it sees, so these win. */
  readonly config?: readonly string[];
}

export async function startRealSshd(dir: KeyDir, options: RealSshdOptions): Promise<RealSshd> {
  const file = (suffix: string): string => join(dir.path, `${options.name}.${suffix}`);
  const port = await freePort();
  writeFileSync(
    file('authorized_keys'),
    `${options.keyOptions ?? ''} ${options.clientKey.public}\n`.trimStart(),
  );
  writeFileSync(
    file('sshd_config'),
    [
      ...(options.config ?? []),
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${options.hostKey.file}`,
      `AuthorizedKeysFile ${file('authorized_keys')}`,
      'PidFile none',
      'StrictModes no',
      'UsePAM no',
      'PermitRootLogin prohibit-password',
      'AuthenticationMethods publickey',
      '',
    ].join('\n'),
  );
  if (userInfo().uid === 0) mkdirSync(PRIVILEGE_SEPARATION_DIR, { recursive: true, mode: 0o755 });
  const child = spawn(SSHD, ['-D', '-e', '-f', file('sshd_config')], { stdio: ['ignore', 'ignore', 'pipe'] });
  const log = await listening(child);
  return {
    log,
    port,
    user: userInfo().username,
    knownHosts: `[127.0.0.1]:${port} ${options.hostKey.public}`,
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => resolve());
        child.kill();
      }),
  };
}

export interface EchoSocket {
  readonly path: string;
  stop(): Promise<void>;
}

/** What stands in for libvirtd's socket: gives every byte back, and says on which path it listens when asked. */
export async function startEchoSocket(path: string): Promise<EchoSocket> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

async function listening(child: ChildProcess): Promise<() => string> {
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes('Server listening')) resolve();
    });
    child.once('exit', (code) => reject(new Error(`sshd ended with ${code}: ${log}`)));
  });
  return () => log;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
