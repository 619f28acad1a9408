import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { type HostProbe, type ProbeOptions, probeHost } from '../../../lib/ssh/probe.ts';
import { DEFAULT_SOCKET_PATH } from '../../../lib/ssh/transport.ts';
import type { SshTarget } from '../../../lib/ssh/tunnel.ts';
import { createSshFixture, type SshFixture } from './ssh-fixture.ts';
import { startSshServer } from './ssh-server.ts';
import { exchange } from './stream-exchange.ts';
import { startTcpServer } from './tcp-server.ts';

describe('probing a host', () => {
  let ssh: SshFixture;
  beforeAll(() => {
    ssh = createSshFixture();
  });
  afterEach(() => ssh.closeAll());
  afterAll(() => ssh.remove());

  const probe = async (target: SshTarget, options: Partial<ProbeOptions> = {}): Promise<HostProbe> => {
    const found = await probeHost(target, { timeoutMs: 20_000, ...options });
    if (found.session !== null) ssh.use(found.session);
    return found;
  };
  /** Each step by name, with the reason of the one that failed. */
  const outcome = ({ steps }: HostProbe) => steps.map(({ name, error }) => [name, error?.reason ?? 'ok']);

  it('takes the steps in order, times each, and names both keys', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    let clock = 0;

    const found = await probe(ssh.target(server.port), { now: () => (clock += 1) });

    expect(outcome(found)).toEqual([
      ['tcp', 'ok'],
      ['handshake', 'ok'],
      ['host-key', 'ok'],
      ['login', 'ok'],
    ]);
    for (const { ms } of found.steps) expect(ms).toBeGreaterThan(0);
    expect(found.hostKey).toEqual({ type: 'ssh-ed25519', fingerprint: expect.stringMatching(/^SHA256:/) });
    expect(found.loginKey.type).toBe('ssh-ed25519');
    expect(found.loginKey.fingerprint).not.toBe(found.hostKey?.fingerprint);
  });

  it('ends at the TCP connection when nobody listens', async () => {
    const gone = await startTcpServer(() => undefined);
    await gone.close();

    const found = await probe(ssh.target(gone.port));

    expect(outcome(found)).toEqual([['tcp', 'unreachable']]);
    expect(found).toMatchObject({ session: null, hostKey: null });
  });

  it.each([
    ['closes at once', (socket: Socket) => socket.end()],
    ['closes after its banner', (socket: Socket) => socket.end('SSH-2.0-test\r\n')],
    ['says no to start with', (socket: Socket) => socket.end('Not allowed at this time\r\n')],
  ])('ends at the handshake with a server that %s, and tries once', async (_what, behave) => {
    const server = ssh.use(await startTcpServer(behave));

    const found = await probe(ssh.target(server.port));

    expect(outcome(found)).toEqual([
      ['tcp', 'ok'],
      ['handshake', 'closed-early'],
    ]);
    expect(server.accepted).toBe(1);
  });

  it('ends at the handshake of a server that says nothing, when the time is used up', async () => {
    const server = ssh.use(await startTcpServer(() => undefined));

    const found = await probe(ssh.target(server.port), { timeoutMs: 100 });

    expect(outcome(found)).toEqual([
      ['tcp', 'ok'],
      ['handshake', 'timeout'],
    ]);
    expect(found.steps[1]?.error?.message).toContain('in the SSH handshake');
  });

  it('shows the key of a host that is not on file, and does not log in', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));

    const found = await probe(ssh.target(server.port, { knownHosts: parseKnownHosts('') }));

    expect(outcome(found)).toEqual([
      ['tcp', 'ok'],
      ['handshake', 'ok'],
      ['host-key', 'host-key-unknown'],
    ]);
    expect(found.hostKey?.fingerprint).toMatch(/^SHA256:/);
    expect(server.methods).toEqual([]);
  });

  it('does not log in to a host with another key than the one on file', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    const other = ssh.generateKey('other', '-t', 'ed25519');
    const knownHosts = parseKnownHosts(`[127.0.0.1]:${server.port} ${other.public}`);

    const found = await probe(ssh.target(server.port, { knownHosts }));

    expect(outcome(found).at(-1)).toEqual(['host-key', 'host-key-changed']);
    expect(server.methods).toEqual([]);
  });

  it('SS-01: tells a key type that is not on file from a server without algorithms in common', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    const rsa = ssh.generateKey('rsa', '-t', 'rsa', '-b', '2048');
    const knownHosts = parseKnownHosts(`[127.0.0.1]:${server.port} ${rsa.public}`);

    const found = await probe(ssh.target(server.port, { knownHosts }));

    expect(outcome(found)).toEqual([
      ['tcp', 'ok'],
      ['handshake', 'ok'],
      ['host-key', 'host-key-changed'],
    ]);
    expect(found.hostKey?.type).toBe('ssh-ed25519');
    expect(found.steps.at(-1)?.error?.message).toMatch(/no host key of the types .*rsa-sha2-512/);
    expect(server.methods).toEqual([]);
  });

  it('knows a revoked key', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    const name = `[127.0.0.1]:${server.port}`;
    const knownHosts = parseKnownHosts(
      `@revoked ${name} ${ssh.hostKey.public}\n${name} ${ssh.hostKey.public}`,
    );

    expect(outcome(await probe(ssh.target(server.port, { knownHosts }))).at(-1)).toEqual([
      'host-key',
      'host-key-revoked',
    ]);
  });

  it('ends at the login that is refused', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.generateKey('another', '-t', 'ed25519')));

    const found = await probe(ssh.target(server.port));

    expect(outcome(found).at(-1)).toEqual(['login', 'auth-refused']);
    expect(found.session).toBeNull();
  });

  it('leaves no connection behind, however it ended', async () => {
    let closed = 0;
    const server = ssh.use(
      await startSshServer([ssh.hostKey], ssh.clientKey, {
        onConnection: (connection) => connection.once('close', () => (closed += 1)),
      }),
    );
    await probe(ssh.target(server.port, { knownHosts: parseKnownHosts('') }));
    await probe(ssh.target(server.port, { privateKey: ssh.generateKey('wrong', '-t', 'ed25519').private }));
    const { session } = await probe(ssh.target(server.port));
    await session?.close();
    await session?.close();

    await vi.waitFor(() => expect(closed).toBe(3), { timeout: 10_000 });
    expect(server.connections).toHaveLength(3);
  });

  it('rejects with `aborted` when the caller gives up', async () => {
    const server = ssh.use(await startTcpServer(() => undefined));
    const caller = new AbortController();
    const found = probe(ssh.target(server.port), { signal: caller.signal });
    caller.abort();

    await expect(found).rejects.toMatchObject({ reason: 'aborted' });
  });

  describe('the ways', () => {
    it('are all there is, each marked as configured or not', async () => {
      const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
      const { session } = await probe(
        ssh.target(server.port, { socketPath: DEFAULT_SOCKET_PATH, transport: 'helper' }),
      );

      expect(session?.ways.map(({ transport, isConfigured }) => [transport, isConfigured])).toEqual([
        ['socket', false],
        ['socket', false],
        ['helper', true],
      ]);
    });

    it('open apart from each other on the one connection', async () => {
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, {
          onForward: (_path, _accept, reject) => reject(),
          onExec: (_command, accept) => {
            const channel = accept();
            channel.pipe(channel);
          },
        }),
      );
      const { session } = await probe(ssh.target(server.port));
      if (session === null) throw new Error('no session');
      const [socket, helper] = session.ways;
      if (socket === undefined || helper === undefined) throw new Error('two ways are expected');

      await expect(session.open(socket, { timeoutMs: 5_000 })).rejects.toMatchObject({
        reason: 'socket-unreachable',
      });
      const stream = await session.open(helper, { timeoutMs: 5_000 });

      expect(String(await exchange(stream, 'x'))).toBe('x');
      expect(server.connections).toHaveLength(1);
    });

    it('that are never answered end with their own time', async () => {
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, { onForward: () => undefined }),
      );
      const { session } = await probe(ssh.target(server.port));
      const [socket] = session?.ways ?? [];
      if (session === null || socket === undefined) throw new Error('a way is expected');

      await expect(session.open(socket, { timeoutMs: 50 })).rejects.toMatchObject({
        reason: 'timeout',
        message: expect.stringContaining('/run/test/daemon.sock'),
      });
    });
  });
});
