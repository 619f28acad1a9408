import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../functions/worker.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import type { WorkMessage } from '../../../lib/provider/work.ts';
import { createTestRuntime, lambdaContext, type TestRuntime } from '../lambda/test-runtime.ts';

const NOW = Date.parse('2026-02-01T00:00:00Z');

const MESSAGE: WorkMessage = {
  v: 1,
  op: 'create',
  host: 'kvm-a',
  name: 'proxy-1',
  uid: 'uid-1',
  uuid: '6a7f2f5e-7c53-4c6b-9d2b-0b8f6f0f6d11',
  attempt: 0,
  notBefore: NOW,
};

function record(messageId: string, body: unknown = MESSAGE, receiveCount = 1) {
  return {
    messageId,
    receiptHandle: `handle-${messageId}`,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    attributes: { ApproximateReceiveCount: String(receiveCount) },
    eventSource: 'aws:sqs',
  };
}

function failing(kind: ConstructorParameters<typeof ProviderError>[0]): TestRuntime {
  const runtime = createTestRuntime();
  runtime.fleet.interrupt = async () => {
    throw new ProviderError(kind, 'because', { cause: new Error('inner') });
  };
  return runtime;
}

const work = (runtime: TestRuntime, event: unknown) => createHandler(runtime)(event, lambdaContext(900_000));

describe('worker', () => {
  it('goes on with what each message names and acknowledges it', async () => {
    const runtime = createTestRuntime();

    const response = await work(runtime, { Records: [record('1')] });

    expect(response).toEqual({ batchItemFailures: [] });
    expect(runtime.fleet.messages).toEqual([MESSAGE]);
    expect(runtime.fleet.openProviders()).toBe(0);
  });

  it('LM-03: returns only the id of the record that failed', async () => {
    const runtime = createTestRuntime();
    const broken = { ...MESSAGE, name: 'broken' };
    const opened = runtime.openProvider;
    const handler = createHandler({
      ...runtime,
      openProvider: async (scope) => {
        const provider = await opened(scope);
        return {
          ...provider,
          continueWork: async (message) => {
            if (message.name === 'broken') throw new ProviderError('transient', 'unreachable');
            await provider.continueWork(message);
          },
        };
      },
    });

    const response = await handler(
      { Records: [record('1'), record('2', broken), record('3')] },
      lambdaContext(),
    );

    expect(response).toEqual({ batchItemFailures: [{ itemIdentifier: '2' }] });
    expect(runtime.fleet.messages).toHaveLength(2);
  });

  it.each([
    ['no event', undefined],
    ['no records', {}],
    ['records that are no list', { Records: 'x' }],
    ['a record without messageId', { Records: [record('1'), { ...record('2'), messageId: undefined }] }],
    ['an empty messageId', { Records: [record('1'), record('')] }],
    ['the same messageId twice', { Records: [record('1'), record('1')] }],
    ['a record without a receipt handle', { Records: [{ ...record('1'), receiptHandle: undefined }] }],
    ['an HTTP event', { version: '2.0', requestContext: { http: { method: 'POST' } } }],
  ])('LM-03: throws the whole batch back for %s, before any work', async (_, event) => {
    const runtime = createTestRuntime();

    await expect(work(runtime, event)).rejects.toThrow('not an SQS event');
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('answers an empty batch with no failures', async () => {
    expect(await work(createTestRuntime(), { Records: [] })).toEqual({ batchItemFailures: [] });
  });

  it('LM-05: hands two deliveries of one message to the provider alike, at once', async () => {
    const runtime = createTestRuntime();
    let meanwhile = 0;
    let most = 0;
    runtime.fleet.interrupt = async () => {
      meanwhile += 1;
      most = Math.max(most, meanwhile);
      await new Promise((resolve) => setTimeout(resolve, 20));
      meanwhile -= 1;
    };

    const responses = await Promise.all([
      work(runtime, { Records: [record('1')] }),
      work(runtime, { Records: [record('1', MESSAGE, 2)] }),
    ]);

    expect(responses).toEqual([{ batchItemFailures: [] }, { batchItemFailures: [] }]);
    expect(most).toBe(2);
    expect(runtime.fleet.messages).toEqual([MESSAGE, MESSAGE]);
  });

  it.each(['transient', 'exhausted', 'timeout', 'internal'] as const)(
    'reports a failure that is %s after setting a back-off',
    async (kind) => {
      const runtime = failing(kind);

      const response = await work(runtime, { Records: [record('1', MESSAGE, 3)] });

      expect(response).toEqual({ batchItemFailures: [{ itemIdentifier: '1' }] });
      expect(runtime.visibility.map(({ handle }) => handle)).toEqual(['handle-1', 'handle-1']);
      expect(runtime.visibility[0]?.seconds).toBe(120);
      expect(runtime.visibility[1]?.seconds).toBe(kind === 'exhausted' ? 180 : 45);
      expect(runtime.fleet.openProviders()).toBe(0);
    },
  );

  it.each(['permanent', 'conflict', 'not-found', 'invalid-request'] as const)(
    'acknowledges what is %s, which stands in the VM’s metadata',
    async (kind) => {
      const runtime = failing(kind);

      expect(await work(runtime, { Records: [record('1')] })).toEqual({ batchItemFailures: [] });
      expect(runtime.logged.join('')).toContain('given up');
    },
  );

  it('never acknowledges work because of a wrong configuration or an unreadable secret', async () => {
    const runtime = createTestRuntime({
      openProvider: async () => {
        throw new ProviderError('permanent', 'the secret is not there');
      },
    });

    expect(await work(runtime, { Records: [record('1')] })).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }],
    });
  });

  it('still reports the failure when the queue does not take the back-off', async () => {
    const runtime = createTestRuntime({
      queue: {
        send: async () => undefined,
        setVisibility: async () => {
          throw new Error('no route to SQS');
        },
      },
    });
    runtime.fleet.interrupt = async () => {
      throw new ProviderError('transient', 'unreachable');
    };

    expect(await work(runtime, { Records: [record('1')] })).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }],
    });
  });

  it.each([
    ['not JSON', '{'],
    ['another version', { ...MESSAGE, v: 2 }],
    ['an unknown operation', { ...MESSAGE, op: 'reboot' }],
    ['a field of a later version', { ...MESSAGE, priority: 1 }],
    ['no uuid', { ...MESSAGE, uuid: '../../etc' }],
    ['null', 'null'],
  ])('leaves a body that is %s to the dead-letter queue without touching a host', async (_, body) => {
    const runtime = createTestRuntime();

    expect(await work(runtime, { Records: [record('1', body)] })).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }],
    });
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('puts a message that comes too early back with the delay that is left, in steps of at most 900 s', async () => {
    const runtime = createTestRuntime();
    const soon = { ...MESSAGE, notBefore: NOW + 1_200 };
    const late = { ...MESSAGE, notBefore: NOW + 7_200_000 };

    const response = await work(runtime, { Records: [record('1', soon), record('2', late)] });

    expect(response).toEqual({ batchItemFailures: [] });
    expect(runtime.sent).toEqual([
      { message: soon, delaySeconds: 2 },
      { message: late, delaySeconds: 900 },
    ]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('keeps an early message when the queue does not take it back', async () => {
    const runtime = createTestRuntime({
      queue: {
        send: async () => {
          throw new ProviderError('transient', 'no route to SQS');
        },
        setVisibility: async () => undefined,
      },
    });

    expect(await work(runtime, { Records: [record('1', { ...MESSAGE, notBefore: NOW + 5_000 })] })).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }],
    });
  });

  it('renews the message while it works, and not after', async () => {
    const waits: (() => void)[] = [];
    const runtime = createTestRuntime({
      pause: (_, signal) =>
        new Promise((resolve) => {
          waits.push(resolve);
          signal.addEventListener('abort', () => resolve());
        }),
    });
    let finish: () => void = () => undefined;
    runtime.fleet.interrupt = () =>
      new Promise((resolve) => {
        finish = resolve;
      });

    const working = work(runtime, { Records: [record('1')] });
    for (let renewals = 0; renewals < 3; renewals += 1) {
      while (waits.length <= renewals) await new Promise((resolve) => setImmediate(resolve));
      waits[renewals]?.();
    }
    while (waits.length < 4) await new Promise((resolve) => setImmediate(resolve));
    finish();
    await working;

    expect(runtime.visibility.map(({ seconds }) => seconds)).toEqual([120, 120, 120, 120]);
  });
});
