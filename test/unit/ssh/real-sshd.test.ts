import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { openTunnel, type SshTarget, type Tunnel } from '../../../lib/ssh/tunnel.ts';
import { createKeyDir, type KeyDir, type KeyPair } from './keys.ts';
import {
  type EchoSocket,
  NO_SSHD,
  type RealSshd,
  type RealSshdOptions,
  startEchoSocket,
  startRealSshd,
} from './real-sshd.ts';
import { ending, exchange } from './stream-exchange.ts';

describe.skipIf(NO_SSHD)(`a tunnel through a real sshd${NO_SSHD ? ` (skipped: ${NO_SSHD})` : ''}`, () => {
  let dir: KeyDir;
  let hostKey: KeyPair;
  let clientKey: KeyPair;
  let echo: EchoSocket;
  const open: { close(): Promise<void> }[] = [];
  const running: RealSshd[] = [];

  beforeAll(async () => {
    dir = createKeyDir();
    hostKey = dir.generate('host', '-t', 'ed25519');
    clientKey = dir.generate('client', '-t', 'ed25519');
    echo = await startEchoSocket(join(dir.path, 'echo.sock'));
  });

  afterEach(async () => {
    for (const tunnel of open.splice(0)) await tunnel.close();
    for (const sshd of running.splice(0)) await sshd.stop();
  });

  afterAll(async () => {
    await echo.stop();
    dir.remove();
  });

  async function start(name: string, options: Partial<RealSshdOptions> = {}): Promise<RealSshd> {
    const sshd = await startRealSshd(dir, { name, hostKey, clientKey, ...options });
    running.push(sshd);
    return sshd;
  }

  function target(sshd: RealSshd, overrides: Partial<SshTarget> = {}): SshTarget {
    return {
      address: '127.0.0.1',
      port: sshd.port,
      user: sshd.user,
      privateKey: clientKey.private,
      knownHosts: parseKnownHosts(sshd.knownHosts),
      socketPath: echo.path,
      transport: 'socket',
      ...overrides,
    };
  }

  async function connect(to: SshTarget): Promise<Tunnel> {
    const tunnel = await openTunnel(to, { timeoutMs: 30_000 });
    open.push(tunnel);
    return tunnel;
  }

  it('carries bytes both ways to a unix socket', async () => {
    const sshd = await start('allowed');

    const tunnel = await connect(target(sshd));

    expect(tunnel.transport).toBe('socket');
    expect((await exchange(tunnel.stream, 'hello')).toString()).toBe('hello');
  });

  it('acknowledges what sshd says after the login at once, by a request that it need not answer', async () => {
    const sshd = await start('acknowledged', { config: ['LogLevel DEBUG1'] });

    const tunnel = await connect(target(sshd));
    await exchange(tunnel.stream, 'hello');

    await expect
      .poll(() => sshd.log(), { timeout: 10_000 })
      .toContain('rtype cancel-tcpip-forward want_reply 0');
  });

  it('carries 8 MiB unchanged in both directions at once', async () => {
    const sshd = await start('bulk');
    const bytes = Buffer.alloc(8 << 20, 'kvm-functions ');

    const tunnel = await connect(target(sshd));

    expect((await exchange(tunnel.stream, bytes)).equals(bytes)).toBe(true);
  });

  it.each([
    { kind: 'ed25519', options: ['-t', 'ed25519'] },
    { kind: 'ecdsa', options: ['-t', 'ecdsa', '-b', '384'] },
    { kind: 'rsa', options: ['-t', 'rsa', '-b', '2048'] },
  ])('logs in with, and verifies a host by, a key of type $kind', async ({ kind, options }) => {
    const host = dir.generate(`host-${kind}`, ...options);
    const client = dir.generate(`client-${kind}`, ...options);
    const sshd = await start(`type-${kind}`, { hostKey: host, clientKey: client });

    const tunnel = await connect(target(sshd, { privateKey: client.private }));

    expect((await exchange(tunnel.stream, kind)).toString()).toBe(kind);
  });

  it('SS-01: is let in by the RSA key on file although the server prefers Ed25519', async () => {
    const rsa = dir.generate('host-second-rsa', '-t', 'rsa', '-b', '2048');
    const sshd = await start('two-host-keys', { config: [`HostKey ${rsa.file}`] });
    const knownHosts = parseKnownHosts(`[127.0.0.1]:${sshd.port} ${rsa.public}`);

    const tunnel = await connect(target(sshd, { knownHosts }));

    expect((await exchange(tunnel.stream, 'rsa')).toString()).toBe('rsa');
  });

  it('fails for good when the server has no host key of a type on file', async () => {
    const other = dir.generate('host-other', '-t', 'rsa', '-b', '2048');
    const sshd = await start('other-type');
    const knownHosts = parseKnownHosts(`[127.0.0.1]:${sshd.port} ${other.public}`);

    await expect(connect(target(sshd, { knownHosts }))).rejects.toMatchObject({
      reason: 'handshake-failed',
      retryable: false,
    });
  });

  it('fails for good when the key is not the authorised one', async () => {
    const stranger = dir.generate('stranger', '-t', 'ed25519');
    const sshd = await start('stranger');

    await expect(connect(target(sshd, { privateKey: stranger.private }))).rejects.toMatchObject({
      reason: 'auth-refused',
      retryable: false,
      message: expect.stringContaining(sshd.user),
    });
  });

  it.each([
    { policy: 'AllowTcpForwarding no' },
    { policy: 'AllowStreamLocalForwarding no' },
    { policy: 'PermitOpen none' },
  ])('SS-09: names both causes when $policy refuses, as sshd does not say which', async ({ policy }) => {
    const sshd = await start(policy.replaceAll(' ', '-'), { config: [policy] });

    await expect(connect(target(sshd))).rejects.toMatchObject({
      reason: 'socket-unreachable',
      retryable: true,
      message: expect.stringMatching(/not running.*AllowTcpForwarding.*PermitOpen/s),
    });
  });

  it('SS-09: says the same of a socket that is missing', async () => {
    const sshd = await start('missing');
    const socketPath = join(dir.path, 'nothing.sock');

    await expect(connect(target(sshd, { socketPath }))).rejects.toMatchObject({
      reason: 'socket-unreachable',
      retryable: true,
      message: expect.stringMatching(/virtqemud-sock.*virtproxyd.*group libvirt/s),
    });
  });

  it('reaches exactly the permitted socket with an account that may do nothing else', async () => {
    const sshd = await start('restricted', {
      config: [
        'AllowTcpForwarding local',
        'AllowStreamLocalForwarding local',
        `PermitOpen [${echo.path}]:*`,
        'MaxSessions 0',
        'ForceCommand /bin/false',
      ],
    });
    const other = await startEchoSocket(join(dir.path, 'other.sock'));

    const tunnel = await connect(target(sshd, { transport: 'auto' }));
    const elsewhere = connect(target(sshd, { socketPath: other.path }));

    expect(tunnel.transport).toBe('socket');
    expect((await exchange(tunnel.stream, 'only this')).toString()).toBe('only this');
    await expect(elsewhere).rejects.toMatchObject({ reason: 'socket-unreachable' });
    await other.stop();
  });

  it('SS-07: 40 connections at once all succeed against the default MaxStartups', async () => {
    const sshd = await start('max-startups', { config: ['MaxStartups 10:30:100'] });

    const tunnels = await Promise.all(Array.from({ length: 40 }, () => connect(target(sshd))));

    const answers = await Promise.all(tunnels.map(({ stream }, n) => exchange(stream, `call ${n}`)));
    expect(answers.map(String)).toEqual(tunnels.map((_, n) => `call ${n}`));
    expect(sshd.log()).toContain('MaxStartups throttling');
  });

  it('ends the stream when the daemon closes', async () => {
    const daemon = await startEchoSocket(join(dir.path, 'short-lived.sock'));
    const sshd = await start('daemon-stops');
    const { stream } = await connect(target(sshd, { socketPath: daemon.path }));
    await exchange(stream, 'up');

    const ended = ending(stream);
    await daemon.stop();

    expect(await ended).toBeNull();
  });

  describe('through a key whose forced command is the helper', () => {
    function forced(script: string): { keyOptions: string } {
      const file = join(dir.path, `helper-${script.length}.sh`);
      writeFileSync(file, `#!/bin/sh\n${script}\n`);
      chmodSync(file, 0o755);
      return { keyOptions: `command="${file}",restrict` };
    }

    it('carries bytes both ways whatever was asked for', async () => {
      const sshd = await start('helper', forced('exec cat'));

      const tunnel = await connect(target(sshd, { transport: 'helper' }));

      expect(tunnel.transport).toBe('helper');
      expect((await exchange(tunnel.stream, 'through cat')).toString()).toBe('through cat');
    });

    it('asks for virt-ssh-helper with the system URI', async () => {
      const sshd = await start('helper-asked', forced('printf "%s" "$SSH_ORIGINAL_COMMAND"; exec cat'));

      const { stream } = await connect(target(sshd, { transport: 'helper' }));
      const asked = await new Promise((resolve) => stream.once('data', resolve));

      expect(String(asked)).toBe('virt-ssh-helper qemu:///system');
    });

    it('is found by auto after the forward was refused', async () => {
      const sshd = await start('helper-auto', forced('exec cat #auto'));

      const tunnel = await connect(target(sshd, { transport: 'auto' }));

      expect(tunnel.transport).toBe('helper');
      expect((await exchange(tunnel.stream, 'auto')).toString()).toBe('auto');
    });

    it('fails for good with what it said when the helper is not installed', async () => {
      const sshd = await start('helper-missing', forced('exec virt-ssh-helper-that-is-missing'));

      const { stream } = await connect(target(sshd, { transport: 'helper' }));

      expect(await ending(stream)).toMatchObject({
        reason: 'helper-failed',
        retryable: false,
        message: expect.stringMatching(/exited with 127.*virt-ssh-helper-that-is-missing/s),
      });
    });

    it('fails for now with what it said when the daemon is not there', async () => {
      const sshd = await start('helper-refused', forced('echo "cannot connect: refused" >&2; exit 1'));

      const { stream } = await connect(target(sshd, { transport: 'helper' }));

      expect(await ending(stream)).toMatchObject({
        reason: 'helper-failed',
        retryable: true,
        message: expect.stringContaining('exited with 1: cannot connect: refused'),
      });
    });
  });
});
