import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { type DelayProxy, startDelayProxy } from '../../bench/delay-proxy.ts';

const ONE_WAY_MS = 40;

describe('the delaying proxy', () => {
  const open: (() => Promise<unknown> | unknown)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });

  /** Half-open, as sshd's sockets are: an end in one direction says nothing about the other. */
  async function serve(onConnection: (socket: Socket) => void): Promise<Server> {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      open.push(() => socket.destroy());
      onConnection(socket);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push(() => server.close());
    return server;
  }

  async function proxyTo(server: Server, oneWayMs = ONE_WAY_MS): Promise<DelayProxy> {
    const { port } = server.address() as AddressInfo;
    const proxy = await startDelayProxy({ address: '127.0.0.1', port, oneWayMs });
    open.push(() => proxy.close());
    return proxy;
  }

  async function dial(proxy: DelayProxy): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port: proxy.port, allowHalfOpen: true }).setNoDelay(true);
    socket.on('error', () => {});
    open.push(() => socket.destroy());
    await once(socket, 'connect');
    return socket;
  }

  it('adds its delay once in each direction', async () => {
    let arrivedAt = 0;
    const server = await serve((socket) => {
      socket.on('data', (bytes) => {
        arrivedAt = performance.now();
        socket.write(bytes);
      });
    });
    const client = await dial(await proxyTo(server));

    const times: { there: number; round: number }[] = [];
    for (let i = 0; i < 5; i++) {
      const startedAt = performance.now();
      client.write('ping');
      await once(client, 'data');
      times.push({ there: arrivedAt - startedAt, round: performance.now() - startedAt });
    }

    const fastest = (key: 'there' | 'round') => Math.min(...times.map((time) => time[key]));
    expect(fastest('there')).toBeGreaterThanOrEqual(ONE_WAY_MS - 1);
    expect(fastest('there')).toBeLessThan(ONE_WAY_MS * 1.5);
    expect(fastest('round')).toBeGreaterThanOrEqual(ONE_WAY_MS * 2 - 2);
    expect(fastest('round')).toBeLessThan(ONE_WAY_MS * 3);
  });

  it('delays, and does not queue: what is sent together arrives together', async () => {
    const server = await serve((socket) => {
      socket.on('data', (bytes) => socket.write(bytes));
    });
    const client = await dial(await proxyTo(server));
    const startedAt = performance.now();

    for (let i = 0; i < 10; i++) {
      client.write('0123456789');
      await sleep(2);
    }
    let received = 0;
    while (received < 100) received += ((await once(client, 'data')) as [Buffer])[0].length;

    // One after the other they would take ten round trips.
    expect(performance.now() - startedAt).toBeLessThan(ONE_WAY_MS * 2 * 4);
  });

  it('delivers every byte in order and then the end, also to a receiver that reads slowly', async () => {
    const bytes = randomBytes(24 << 20);
    const digest = createHash('sha256');
    let length = 0;
    const received = new Promise<string>((resolve) => {
      void serve((socket) => {
        socket.pause();
        setTimeout(() => socket.resume(), 150);
        socket.on('data', (chunk) => {
          length += chunk.length;
          digest.update(chunk);
        });
        socket.on('end', () => resolve(digest.digest('hex')));
      }).then(async (server) => (await dial(await proxyTo(server, 5))).end(bytes));
    });

    expect(await received).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect(length).toBe(bytes.length);
  });

  it('keeps the answer open after the end of the question', async () => {
    const server = await serve((socket) => {
      socket.resume();
      socket.on('end', () => socket.end('answer to all of it'));
    });
    const client = await dial(await proxyTo(server));

    client.end('question');
    const chunks: Buffer[] = [];
    for await (const chunk of client) chunks.push(chunk as Buffer);

    expect(Buffer.concat(chunks).toString()).toBe('answer to all of it');
  });

  it('ends the connection of one side when the other one breaks', async () => {
    const server = await serve((socket) => {
      socket.resume();
      socket.once('data', () => socket.resetAndDestroy());
    });
    const client = await dial(await proxyTo(server));
    client.resume();

    client.write('break');

    await expect(once(client, 'close')).rejects.toThrow('ECONNRESET');
  });
});
