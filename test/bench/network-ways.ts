/** The two ways to the host: direct, and through a proxy that makes the round trip 30 ms longer. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { BenchHost } from './bench-host.ts';
import type { ProxyOrder } from './delay-proxy.ts';
import { median } from './judgement.ts';
import type { Endpoint } from './ssh-access.ts';

export const ROUND_TRIP_MS = 30;
const PINGS = 20;

export interface Way {
  /** As the end of a measure's name. */
  readonly name: string;
  readonly endpoint: Endpoint;
}

export interface NetworkWays extends AsyncDisposable {
  readonly loopback: Way;
  readonly delayed: Way;
  /** What a round trip through a proxy of this kind takes on this machine, in milliseconds: a timer is never early. */
  readonly measuredMs: number;
}

export async function openNetworkWays(host: BenchHost): Promise<NetworkWays> {
  const measuredMs = await measureRoundTrip();
  const proxy = await startProxy(host.direct);
  await host.trust(proxy.endpoint);
  return {
    loopback: { name: 'loopback', endpoint: host.direct },
    delayed: { name: `${ROUND_TRIP_MS} ms`, endpoint: proxy.endpoint },
    measuredMs,
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

interface Proxy extends AsyncDisposable {
  readonly endpoint: Endpoint;
}

/** In a process of its own, which ends with this one. */
async function startProxy({ address, port }: Endpoint): Promise<Proxy> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'delay-proxy.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const order: ProxyOrder = { address, port, oneWayMs: ROUND_TRIP_MS / 2 };
  child.stdin.write(`${JSON.stringify(order)}\n`);
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return {
    endpoint: { address: '127.0.0.1', port: Number(line) },
    [Symbol.asyncDispose]: () => end(child),
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function measureRoundTrip(): Promise<number> {
  const echo = createServer((socket) => socket.setNoDelay(true).pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  const address = echo.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const proxy = await startProxy({ address: '127.0.0.1', port: address.port });
  const socket = connect({ host: proxy.endpoint.address, port: proxy.endpoint.port }).setNoDelay(true);
  try {
    await once(socket, 'connect');
    const times: number[] = [];
    for (let ping = 0; ping < PINGS; ping++) {
      const startedAt = performance.now();
      socket.write('ping');
      await once(socket, 'data');
      times.push(performance.now() - startedAt);
    }
    return median(times);
  } finally {
    socket.destroy();
    await proxy[Symbol.asyncDispose]();
    echo.close();
  }
}
