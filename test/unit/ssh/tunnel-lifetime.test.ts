import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientChannel, ServerChannel } from 'ssh2';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { requestChannel } from '../../../lib/ssh/channel-request.ts';
import { ChannelStream } from '../../../lib/ssh/channel-stream.ts';
import { connectSsh } from '../../../lib/ssh/connection.ts';
import { trustHost } from '../../../lib/ssh/host-trust.ts';
import { parsePrivateKey } from '../../../lib/ssh/private-key.ts';
import type { Tunnel } from '../../../lib/ssh/tunnel.ts';
import { createSshFixture, type SshFixture } from './ssh-fixture.ts';
import { startSshServer } from './ssh-server.ts';
import { ending, exchange } from './stream-exchange.ts';
import { startTcpProxy, type TcpProxy } from './tcp-server.ts';

const MIB = 1 << 20;

describe('an open tunnel', () => {
  let ssh: SshFixture;
  beforeAll(() => {
    ssh = createSshFixture();
  });
  afterEach(() => ssh.closeAll());
  afterAll(() => ssh.remove());

  async function openThroughProxy(): Promise<{ tunnel: Tunnel; proxy: TcpProxy }> {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
    const proxy = ssh.use(await startTcpProxy(server.port));
    return { tunnel: await ssh.open(ssh.target(proxy.port)), proxy };
  }

  /** What would have killed the process. */
  function trapCrashes(): unknown[] {
    const crashes: unknown[] = [];
    const record = (error: unknown): number => crashes.push(error);
    process.on('unhandledRejection', record).on('uncaughtException', record);
    onTestFinished(() => {
      process.off('unhandledRejection', record).off('uncaughtException', record);
    });
    return crashes;
  }

  it.each(['reset', 'cut'] as const)(
    'whose connection is %s fails its stream and the write in flight',
    async (how) => {
      const { tunnel, proxy } = await openThroughProxy();
      proxy.stall();
      // More than the window: the server takes none of it.
      const write = new Promise((resolve) => tunnel.stream.write(Buffer.alloc(8 * MIB), resolve));

      const ended = ending(tunnel.stream);
      proxy[how]();

      expect(await ended).toMatchObject({ reason: 'connection-lost', retryable: true });
      expect(await write).toMatchObject({ reason: 'connection-lost' });
    },
  );

  it('refuses a write after its connection was lost', async () => {
    const { tunnel, proxy } = await openThroughProxy();
    const ended = ending(tunnel.stream);
    proxy.reset();
    await ended;

    const error = await new Promise((resolve) => tunnel.stream.write('late', resolve));

    expect(error).toBeInstanceOf(Error);
  });

  it('fails for the connection, not the forward, when it is lost before anyone listens', async () => {
    const crashes = trapCrashes();
    const { tunnel, proxy } = await openThroughProxy();

    proxy.reset();
    await once(tunnel.stream, 'close').catch(() => {});
    await delay(20);

    expect(tunnel.stream.errored).toMatchObject({ reason: 'connection-lost' });
    expect(crashes).toEqual([]);
  });

  it.each(['reset', 'cut'] as const)('LM-09: that is closed hears nothing of a late %s', async (how) => {
    const crashes = trapCrashes();
    const { tunnel, proxy } = await openThroughProxy();
    await exchange(tunnel.stream, 'work');

    const closed = tunnel.close();
    proxy[how]();
    await closed;
    await delay(50);

    expect(tunnel.stream.errored).toBeNull();
    expect(crashes).toEqual([]);
  });

  it('LM-09: leaves nothing that rejects when the server closes 5 ms after the work is done', async () => {
    const crashes = trapCrashes();
    const { tunnel, proxy } = await openThroughProxy();
    await exchange(tunnel.stream, 'work');

    await delay(5);
    proxy.cut();
    await tunnel.close();
    await delay(50);

    expect(crashes).toEqual([]);
  });

  it('is closed once however often it is asked', async () => {
    const { tunnel, proxy } = await openThroughProxy();

    await Promise.all([tunnel.close(), tunnel.close()]);
    await tunnel.close();

    expect(tunnel.stream.destroyed).toBe(true);
    await vi.waitFor(() => expect(proxy.open.size).toBe(0));
  });

  it('is closed although the server reads nothing any more', async () => {
    const { tunnel, proxy } = await openThroughProxy();
    proxy.stall();
    tunnel.stream.write(Buffer.alloc(32 * MIB));

    await tunnel.close();

    await vi.waitFor(() => expect(tunnel.stream.closed).toBe(true));
  });

  it('answers a write in flight when it is closed', async () => {
    const { tunnel, proxy } = await openThroughProxy();
    proxy.stall();
    const write = new Promise((resolve) => tunnel.stream.write(Buffer.alloc(8 * MIB), resolve));

    await tunnel.close();

    expect(await write).toBeInstanceOf(Error);
  });

  describe('SS-10: with a remote that does not read', () => {
    const CHUNK = Buffer.alloc(MIB / 4);

    /** Offers 64 MiB as a well-behaved writer does, and tells how much was taken. */
    function offer(stream: Tunnel['stream']): { taken: () => number; done: Promise<void> } {
      let taken = 0;
      const done = (async () => {
        for (let sent = 0; sent < 64 * MIB; sent += CHUNK.length) {
          const free = stream.write(CHUNK);
          taken += CHUNK.length;
          if (!free) await once(stream, 'drain');
        }
      })();
      return { taken: () => taken, done };
    }

    async function settled(value: () => number): Promise<number> {
      for (let last = -1; last !== value(); await delay(250)) last = value();
      return value();
    }

    it('stops at the window it was granted, and goes on when it reads', async () => {
      let remote: ServerChannel | undefined;
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, {
          onForward: (_path, accept) => {
            remote = accept();
          },
        }),
      );
      const { stream } = await ssh.open(ssh.target(server.port));

      const { taken, done } = offer(stream);
      const whileClosed = await settled(taken);
      let received = 0;
      remote?.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
      await done;

      // A window of 2 MiB twice (granted and buffered by the server), and what waits on our side.
      expect(whileClosed).toBeLessThanOrEqual(5 * MIB);
      await vi.waitFor(() => expect(received).toBe(64 * MIB), { timeout: 20_000 });
    });

    it('stops at the socket buffers when the window would let everything through', async () => {
      const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));
      const proxy = ssh.use(await startTcpProxy(server.port));
      const target = ssh.target(proxy.port);
      const connection = ssh.use(
        await connectSsh(
          {
            ...target,
            privateKey: parsePrivateKey(target.privateKey),
            trust: trustHost(target.knownHosts, target.address, target.port),
          },
          AbortSignal.timeout(20_000),
          () => {},
        ),
      );
      const stream = await requestChannel(
        connection.lost,
        (callback) => connection.client.openssh_forwardOutStreamLocal('/any', callback),
        (channel: ClientChannel) => {
          Object.assign(Object(channel.outgoing), { window: 2 ** 31 });
          return new ChannelStream(channel, { socket: connection.socket });
        },
      );
      proxy.stall();

      const { taken, done } = offer(stream);
      const whileStalled = await settled(taken);
      const buffered = connection.socket.writableLength;
      stream.destroy(new Error('over'));
      await done.catch(() => {});

      expect(whileStalled).toBeLessThan(32 * MIB);
      expect(buffered).toBeLessThan(MIB);
    });
  });
});
