/**
 * A TCP proxy that makes the way longer: every byte arrives `oneWayMs` after it was read, in either direction, and no
 * fewer of them in a second. It stands in for a line of that round trip where the kernel has no netem. The TCP handshake
 * itself ends at the proxy and is not delayed; that is the same for whoever comes through it.
 *
 * Run by itself it is a process of its own, so that its work takes no time from the contestant's: it reads one line, a
 * ProxyOrder, prints the port it listens on, and ends with its standard input.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export interface ProxyOrder {
  readonly address: string;
  readonly port: number;
  readonly oneWayMs: number;
}

export interface DelayProxy {
  /** On 127.0.0.1. */
  readonly port: number;
  close(): Promise<void>;
}

export async function startDelayProxy({ address, port, oneWayMs }: ProxyOrder): Promise<DelayProxy> {
  const open = new Set<Socket>();
  const track = (socket: Socket): Socket => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    return socket.setNoDelay(true);
  };
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = track(connect({ host: address, port, allowHalfOpen: true }));
    carry(track(near), far, oneWayMs);
    carry(far, near, oneWayMs);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What happened on one side and is still on its way to the other; null is the end of the bytes. */
interface InFlight {
  readonly dueAt: number;
  readonly event: Buffer | null | 'lost';
}

/**
 * One direction. Bytes, their end and a broken connection arrive in the order in which they were seen. Reading stops
 * while the receiver takes nothing: otherwise a slow one would fill the memory with what a fast one sends.
 */
function carry(from: Socket, to: Socket, delayMs: number): void {
  const queue: InFlight[] = [];
  let isWaiting = false;

  const deliver = (): void => {
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      const leftMs = next.dueAt - performance.now();
      // A timer may fire a fraction of a millisecond early; too late by as much is no better, so it is taken as due.
      if (leftMs > 0.5) {
        setTimeout(deliver, leftMs);
        return;
      }
      queue.shift();
      hand(next.event);
    }
    isWaiting = false;
  };
  const hand = (event: InFlight['event']): void => {
    if (to.destroyed) return;
    if (event === 'lost') to.resetAndDestroy();
    else if (event === null) to.end();
    else if (!to.write(event) && !from.isPaused()) {
      from.pause();
      to.once('drain', () => from.resume());
    }
  };
  const send = (event: InFlight['event']): void => {
    queue.push({ dueAt: performance.now() + delayMs, event });
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(deliver, delayMs);
  };

  let ended = false;
  from.on('data', send);
  from.on('end', () => {
    ended = true;
    send(null);
  });
  from.on('error', () => {}); // `close` follows, and is what the other side is told
  from.on('close', (hadError) => {
    // After a proper end there is nothing to tell: destroying would take away what the receiver has not read yet.
    if (hadError || !ended) send('lost');
  });
}

async function main(): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  const [line] = await once(lines, 'line');
  const proxy = await startDelayProxy(JSON.parse(String(line)) as ProxyOrder);
  lines.once('close', () => void proxy.close());
  console.log(proxy.port);
}

if (import.meta.main) await main();
