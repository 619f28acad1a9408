import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { createSshFixture, type SshFixture } from './ssh-fixture.ts';
import { startSshServer } from './ssh-server.ts';
import { exchange } from './stream-exchange.ts';
import { startTcpProxy, startTcpServer } from './tcp-server.ts';

describe('opening a tunnel', () => {
  let ssh: SshFixture;
  beforeAll(() => {
    ssh = createSshFixture();
  });
  afterEach(() => ssh.closeAll());
  afterAll(() => ssh.remove());

  const waitFor = (condition: () => boolean): Promise<void> =>
    vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000 });

  it('needs no bundler: plain Node loads the sources with the CommonJS ssh2', () => {
    const entry = new URL('../../../lib/ssh/tunnel.ts', import.meta.url).href;
    const script = `import(${JSON.stringify(entry)}).then((module) => console.log(Object.keys(module).join()))`;

    expect(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }).trim()).toBe('openTunnel');
  });

  describe('when the server closes early', () => {
    /** Three attempts' worth of time by a clock that only the pauses advance. */
    function threeAttempts() {
      let nowMs = 0;
      const pauses: number[] = [];
      const options = {
        timeoutMs: 20_000,
        now: () => nowMs,
        random: () => 0.5,
        sleep: (ms: number): Promise<void> => {
          pauses.push(ms);
          nowMs += pauses.length === 2 ? 20_000 - 1 : ms;
          return Promise.resolve();
        },
      };
      return { options, pauses };
    }

    it.each([
      { when: 'before its banner', behave: 'close', detail: /during the handshake$/ },
      {
        when: 'with a word on MaxStartups',
        behave: 'max-startups',
        detail: /it said "Exceeded MaxStartups"/,
      },
      { when: 'in the middle of its banner', behave: 'half-banner', detail: /during the handshake$/ },
      { when: 'after its banner', behave: 'banner', detail: /during the handshake$/ },
      { when: 'after our key exchange began', behave: 'kexinit', detail: /during the handshake$/ },
      { when: 'with a reset', behave: 'reset', detail: /closed the connection during the handshake/ },
    ])('SS-07: $when, the attempt is repeated and fails once as closed-early', async ({ behave, detail }) => {
      const server = ssh.use(
        await startTcpServer((socket) => {
          if (behave === 'close') socket.end();
          if (behave === 'max-startups') socket.end('Exceeded MaxStartups\r\n');
          if (behave === 'half-banner') socket.end('SSH-2.0-Op');
          if (behave === 'banner') socket.end('SSH-2.0-x\r\n');
          if (behave === 'reset') socket.write('SSH-2.0-x\r\n', () => socket.resetAndDestroy());
          if (behave === 'kexinit') {
            socket.write('SSH-2.0-x\r\n');
            socket.on('data', (chunk) => {
              // Our KEXINIT (message 20), whole or joined to our banner.
              if (chunk.includes('curve25519-sha256')) socket.end();
            });
          }
        }),
      );
      const { options, pauses } = threeAttempts();

      const opening = ssh.open(ssh.target(server.port), options);

      await expect(opening).rejects.toMatchObject({ reason: 'closed-early', retryable: true });
      await expect(opening).rejects.toThrow(/\(3 attempts\)$/);
      await opening.catch(({ cause }) => expect(cause.message).toMatch(detail));
      expect(server.accepted).toBe(3);
      expect(pauses).toEqual([75, 150]);
      await waitFor(() => server.open.size === 0);
    });

    it('SS-07: during the login, it is the same', async () => {
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, {
          onConnection: (connection) => connection.on('authentication', () => connection.end()),
          authenticate: () => {},
        }),
      );
      const { options } = threeAttempts();

      await expect(ssh.open(ssh.target(server.port), options)).rejects.toMatchObject({
        reason: 'closed-early',
        message: expect.stringContaining('during the login'),
      });
      expect(server.connections).toHaveLength(3);
    });

    it('SS-07: it goes on trying until the server lets it in', async () => {
      const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
      const proxy = ssh.use(await startTcpProxy(server.port, (number) => number > 6));

      const knownHosts = parseKnownHosts(`[127.0.0.1]:${proxy.port} ${ssh.hostKey.public}`);
      const { stream } = await ssh.open(ssh.target(proxy.port, { knownHosts }));

      expect(String(await exchange(stream, 'at last'))).toBe('at last');
      expect(proxy.accepted).toBe(7);
    });
  });

  it('SS-07: times out on a server that stays silent, saying where', async () => {
    const server = ssh.use(await startTcpServer(() => {}));

    await expect(ssh.open(ssh.target(server.port), { timeoutMs: 1_000 })).rejects.toMatchObject({
      reason: 'timeout',
      retryable: true,
      message: expect.stringMatching(/within 1000 ms: timed out in the SSH handshake$/),
    });
    await waitFor(() => server.open.size === 0);
  });

  it('times out on a server that never answers the forward', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey, { onForward: () => {} }));

    await expect(ssh.open(ssh.target(server.port), { timeoutMs: 4_000 })).rejects.toMatchObject({
      reason: 'timeout',
      message: expect.stringContaining('timed out opening the socket /run/test/daemon.sock'),
    });
  });

  it('tries a closed port three times', async () => {
    const server = await startTcpServer(() => {});
    await server.close();
    const pauses: number[] = [];

    const opening = ssh.open(ssh.target(server.port), {
      sleep: (ms) => {
        pauses.push(ms);
        return Promise.resolve();
      },
    });

    await expect(opening).rejects.toMatchObject({ reason: 'unreachable', retryable: true });
    await expect(opening).rejects.toThrow(/ECONNREFUSED.*\(3 attempts\)$/);
    expect(pauses).toHaveLength(2);
  });

  it('fails for good on a server that does not speak SSH', async () => {
    const server = ssh.use(await startTcpServer((socket) => socket.write('x'.repeat(10_000))));

    await expect(ssh.open(ssh.target(server.port))).rejects.toMatchObject({
      reason: 'handshake-failed',
      retryable: false,
    });
    expect(server.accepted).toBe(1);
  });

  describe('given up by the caller', () => {
    it('before it began, connects to nothing', async () => {
      const server = ssh.use(await startTcpServer(() => {}));

      const opening = ssh.open(ssh.target(server.port), { signal: AbortSignal.abort('not needed') });

      await expect(opening).rejects.toMatchObject({
        reason: 'aborted',
        retryable: false,
        cause: 'not needed',
      });
      expect(server.accepted).toBe(0);
    });

    it('in the handshake, frees the socket', async () => {
      const server = ssh.use(await startTcpServer(() => {}));
      const controller = new AbortController();

      const opening = ssh.open(ssh.target(server.port), { signal: controller.signal });
      opening.catch(() => {});
      await waitFor(() => server.accepted === 1);
      controller.abort();

      await expect(opening).rejects.toMatchObject({ reason: 'aborted' });
      await waitFor(() => server.open.size === 0);
    });

    it('in a pause between two attempts, does not try again', async () => {
      const server = ssh.use(await startTcpServer((socket) => socket.destroy()));
      const controller = new AbortController();

      const opening = ssh.open(ssh.target(server.port), {
        signal: controller.signal,
        sleep: async (_ms, signal) => {
          controller.abort();
          await delay(60_000, undefined, { signal });
        },
      });

      await expect(opening).rejects.toMatchObject({ reason: 'aborted' });
      expect(server.accepted).toBe(1);
    });

    it('while the forward is opened, closes the connection', async () => {
      const controller = new AbortController();
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, { onForward: () => controller.abort() }),
      );
      const proxy = ssh.use(await startTcpProxy(server.port));

      const opening = ssh.open(ssh.target(proxy.port), { signal: controller.signal });

      await expect(opening).rejects.toMatchObject({ reason: 'aborted' });
      await waitFor(() => proxy.open.size === 0);
    });

    it('after it is open, keeps the tunnel', async () => {
      const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
      const controller = new AbortController();

      const { stream } = await ssh.open(ssh.target(server.port), { signal: controller.signal });
      controller.abort();

      expect(String(await exchange(stream, 'still here'))).toBe('still here');
    });
  });

  it('SS-02: shows a host with a changed key neither user nor key', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    const other = ssh.generateKey('other-host', '-t', 'ed25519');
    const knownHosts = parseKnownHosts(`[127.0.0.1]:${server.port} ${other.public}`);

    await expect(ssh.open(ssh.target(server.port, { knownHosts }))).rejects.toMatchObject({
      reason: 'host-key-changed',
      retryable: false,
    });
    expect(server.methods).toEqual([]);
    expect(server.connections).toHaveLength(1);
  });

  it('SS-02: does not connect to a host that is not on file', async () => {
    const server = ssh.use(await startTcpServer(() => {}));

    await expect(
      ssh.open(ssh.target(server.port, { knownHosts: parseKnownHosts('') })),
    ).rejects.toMatchObject({ reason: 'host-key-unknown', retryable: false });
    expect(server.accepted).toBe(0);
  });

  it('offers the one key and no other way to log in, an agent being there or not', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    vi.stubEnv('SSH_AUTH_SOCK', '/run/test/agent.sock');

    await ssh.open(ssh.target(server.port));

    vi.unstubAllEnvs();
    expect(new Set(server.methods)).toEqual(new Set(['publickey']));
  });

  it('fails for good, naming user and key, when the key is refused', async () => {
    const server = ssh.use(
      await startSshServer([ssh.hostKey], ssh.clientKey, {
        authenticate: (context) => context.reject(['publickey', 'password', 'keyboard-interactive']),
      }),
    );

    await expect(ssh.open(ssh.target(server.port))).rejects.toMatchObject({
      reason: 'auth-refused',
      retryable: false,
      message: expect.stringMatching(/SHA256:.*ssh-ed25519.*user kvmfn/),
    });
    expect(server.methods).toEqual(['publickey']);
    expect(server.connections).toHaveLength(1);
  });

  it('SS-05: refuses a damaged key before it connects', async () => {
    const server = ssh.use(await startTcpServer(() => {}));
    const privateKey = ssh.clientKey.private.replaceAll('\n', ' ');

    await expect(ssh.open(ssh.target(server.port, { privateKey }))).rejects.toMatchObject({
      name: 'PrivateKeyError',
      problem: 'newlines-lost',
    });
    expect(server.accepted).toBe(0);
  });
});
