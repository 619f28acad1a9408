import { GetQueueAttributesCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type EventSource, startEventSource } from '../../../infra/local/event-source.ts';
import type { Invocation } from '../../../infra/local/function-host.ts';
import { type LocalQueue, startLocalQueue } from '../../../infra/local/local-queue.ts';
import { createWorkQueue } from '../../../lib/lambda/work-queue.ts';

let queue: LocalQueue;
let source: EventSource | undefined;
beforeEach(async () => {
  queue = await startLocalQueue();
});
afterEach(async () => {
  await source?.stop();
  await queue.close();
});

const DONE: Invocation = { ok: true, result: { batchItemFailures: [] } };

interface Delivered {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly attributes: { readonly ApproximateReceiveCount: string };
}

function start(worker: (record: Delivered) => Promise<Invocation>, concurrency = 2) {
  const warnings: string[] = [];
  source = startEventSource({
    client: queue.client,
    queueUrl: queue.url,
    queueArn: queue.arn,
    invoke: (event) => worker(Object(event).Records[0]),
    concurrency,
    warn: (message) => warnings.push(message),
  });
  return warnings;
}

const send = (body: string) =>
  queue.client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: body }));

async function count(url: string): Promise<number> {
  const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const;
  const { Attributes = {} } = await queue.client.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: [...names] }),
  );
  return names.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0);
}

describe('the event source', () => {
  it('delivers a message as Lambda does and deletes it when it was worked off', async () => {
    const seen: Delivered[] = [];
    start(async (record) => {
      seen.push(record);
      return DONE;
    });

    await send('{"a":1}');

    await vi.waitFor(async () => expect(await count(queue.url)).toBe(0), { timeout: 10_000 });
    expect(seen).toMatchObject([
      {
        body: '{"a":1}',
        messageId: expect.stringMatching(/.+/),
        receiptHandle: expect.stringMatching(/.+/),
        attributes: { ApproximateReceiveCount: '1' },
        eventSource: 'aws:sqs',
      },
    ]);
  });

  it('delivers a message that was reported as failed again, when the worker’s back-off has passed', async () => {
    const receives: string[] = [];
    const visibility = createWorkQueue({ queueUrl: queue.url, client: queue.client });
    start(async ({ messageId, receiptHandle, attributes }) => {
      receives.push(attributes.ApproximateReceiveCount);
      if (receives.length === 3) return DONE;
      await visibility.setVisibility(receiptHandle, 0);
      return { ok: true, result: { batchItemFailures: [{ itemIdentifier: messageId }] } };
    });

    await send('x');

    await vi.waitFor(() => expect(receives).toEqual(['1', '2', '3']), { timeout: 10_000 });
    await vi.waitFor(async () => expect(await count(queue.url)).toBe(0), { timeout: 10_000 });
  });

  it.each<[string, Invocation]>([
    ['throws', { ok: false, errorType: 'TypeError', errorMessage: 'boom' }],
    ['names an unknown id', { ok: true, result: { batchItemFailures: [{ itemIdentifier: 'other' }] } }],
    ['names an empty id', { ok: true, result: { batchItemFailures: [{ itemIdentifier: '' }] } }],
    ['answers something else', { ok: true, result: 'done' }],
  ])('LM-03: keeps the message of a worker that %s', async (_, outcome) => {
    const seen: string[] = [];
    start(async ({ messageId }) => {
      seen.push(messageId);
      return outcome;
    });

    await send('x');

    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 10_000 });
    await source?.stop();
    expect(await count(queue.url)).toBe(1);
  });

  it('moves a message that fails over and over to the dead-letter queue', async () => {
    const visibility = createWorkQueue({ queueUrl: queue.url, client: queue.client });
    start(async ({ messageId, receiptHandle }) => {
      await visibility.setVisibility(receiptHandle, 0);
      return { ok: true, result: { batchItemFailures: [{ itemIdentifier: messageId }] } };
    });

    await send('poison');

    await vi.waitFor(async () => expect(await count(queue.deadLetterUrl)).toBe(1), { timeout: 20_000 });
    expect(await count(queue.url)).toBe(0);
  });

  it('runs as many workers at once as it may, and no more', async () => {
    let running = 0;
    let most = 0;
    const gate = Promise.withResolvers<void>();
    start(async () => {
      running += 1;
      most = Math.max(most, running);
      await gate.promise;
      running -= 1;
      return DONE;
    }, 2);

    for (const body of ['1', '2', '3', '4']) await send(body);
    await vi.waitFor(() => expect(running).toBe(2), { timeout: 10_000 });
    gate.resolve();

    await vi.waitFor(async () => expect(await count(queue.url)).toBe(0), { timeout: 10_000 });
    expect(most).toBe(2);
  });

  it('stops between messages, and only after the worker that runs has ended', async () => {
    const order: string[] = [];
    const entered = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    start(async () => {
      entered.resolve();
      await gate.promise;
      order.push('worked');
      return DONE;
    });
    await send('x');
    await entered.promise;

    const stopping = source?.stop().then(() => order.push('stopped'));
    gate.resolve();
    await stopping;

    expect(order).toEqual(['worked', 'stopped']);
    expect(await count(queue.url)).toBe(0);
  });
});
