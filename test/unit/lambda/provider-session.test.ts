import type { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createHandler as createCreate } from '../../../functions/create.ts';
import { createHandler as createGet } from '../../../functions/get.ts';
import type { ProviderScope } from '../../../lib/lambda/runtime.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import { fakeInstance } from './fake-fleet.ts';
import { asHttp, createTestRuntime, httpEvent, lambdaContext } from './test-runtime.ts';

const GET = httpEvent('GET', '/instances/kvm-a/a');
/** 1.5 s of it are kept for the answer. */
const SHORT = lambdaContext(1_600);

async function unhandledRejections(act: () => Promise<void>): Promise<unknown[]> {
  const seen: unknown[] = [];
  const listen = (reason: unknown) => seen.push(reason);
  const emitter: EventEmitter = process;
  emitter.on('unhandledRejection', listen);
  try {
    await act();
    await new Promise((resolve) => setTimeout(resolve, 50));
  } finally {
    emitter.off('unhandledRejection', listen);
  }
  return seen;
}

describe('a provider for one invocation', () => {
  it('LM-01: is opened anew for every invocation and closed before its answer, also when the work throws', async () => {
    const scopes: ProviderScope[] = [];
    const runtime = createTestRuntime();
    runtime.fleet.instances.set('kvm-a/a', fakeInstance({ host: 'kvm-a', name: 'a' }));
    const handler = createGet({
      ...runtime,
      openProvider: async (scope) => {
        scopes.push(scope);
        return runtime.fleet.open(scope.signal);
      },
    });

    const statuses: number[] = [];
    for (const fail of [false, true, false]) {
      runtime.fleet.interrupt = async () => {
        if (fail) throw new ProviderError('transient', 'the connection is lost');
      };
      statuses.push(asHttp(await handler(GET, lambdaContext())).statusCode);
      expect(runtime.fleet.openProviders()).toBe(0);
    }

    expect(statuses).toEqual([200, 503, 200]);
    expect(new Set(scopes.map(({ signal }) => signal)).size).toBe(3);
  });

  it('LM-08: a host that never answers gives a 504 of ours, and the session is closed', async () => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = () => new Promise(() => undefined);

    const response = asHttp(await createGet(runtime)(GET, SHORT));

    expect(response.statusCode).toBe(504);
    expect(response.json()).toMatchObject({ code: 'timeout', retryable: true });
    expect(response.headers['retry-after']).toBe('5');
    expect(runtime.fleet.openProviders()).toBe(0);
  });

  it('LM-08: work that heeds the signal tells what it was waiting for', async () => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () =>
          reject(new ProviderError('timeout', 'kvm-a did not answer in time')),
        );
      });

    const response = asHttp(await createGet(runtime)(GET, SHORT));

    expect(response.json()).toMatchObject({ status: 504, detail: 'kvm-a did not answer in time' });
  });

  it('LM-08: an HTTP request ends before the gateway gives up, whatever the function’s own timeout is', async () => {
    const deadlines: number[] = [];
    const runtime = createTestRuntime();
    const handler = createCreate({
      ...runtime,
      openProvider: async ({ deadlineAt, signal }) => {
        deadlines.push(deadlineAt - runtime.clock);
        return runtime.fleet.open(signal);
      },
    });
    const request = { name: 'a', placement: { host: 'kvm-a', machineType: 'small', image: 'debian-12' } };

    await handler(httpEvent('POST', '/instances', { body: JSON.stringify(request) }), lambdaContext(900_000));
    await handler(request, lambdaContext(900_000));
    await handler(request, lambdaContext(10_000));

    expect(deadlines).toEqual([27_000, 898_500, 8_500]);
  });

  it('gives up in time while the provider itself is still being opened', async () => {
    const runtime = createTestRuntime({ openProvider: () => new Promise(() => undefined) });

    expect(asHttp(await createGet(runtime)(GET, SHORT)).statusCode).toBe(504);
  });

  it('LM-09: leaves no rejection unhandled that comes after the answer', async () => {
    const runtime = createTestRuntime();
    const late: (() => void)[] = [];
    runtime.fleet.interrupt = () =>
      new Promise((_, reject) => {
        late.push(() => reject(new Error('the connection broke')));
      });

    const seen = await unhandledRejections(async () => {
      expect(asHttp(await createGet(runtime)(GET, SHORT)).statusCode).toBe(504);
      for (const reject of late) reject();
    });

    expect(late).toHaveLength(1);
    expect(seen).toEqual([]);
  });

  it('LM-09: a close that fails or hangs changes neither the answer nor anything after it', async () => {
    const runtime = createTestRuntime();
    runtime.fleet.instances.set('kvm-a/a', fakeInstance({ host: 'kvm-a', name: 'a' }));
    const withClose = (close: () => Promise<void>) =>
      createGet({
        ...runtime,
        openProvider: async ({ signal }) => ({ ...runtime.fleet.open(signal), close }),
      });

    const seen = await unhandledRejections(async () => {
      const failing = withClose(() => Promise.reject(new Error('EPIPE')));
      const hanging = withClose(() => new Promise(() => undefined));
      expect(asHttp(await failing(GET, lambdaContext())).statusCode).toBe(200);
      expect(asHttp(await hanging(GET, lambdaContext())).statusCode).toBe(200);
    });

    expect(seen).toEqual([]);
    expect(runtime.logged.join('')).toContain('EPIPE');
  });
});
