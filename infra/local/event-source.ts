/**
 * What Lambda's event source mapping does: takes messages from the queue, invokes the worker with one at a time, and
 * deletes what it did not report as failed. An answer that names an unknown id, or none at all, fails the whole batch.
 */
import {
  DeleteMessageCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { pause } from '../../lib/lambda/pause.ts';
import type { Invocation } from './function-host.ts';

export interface EventSourceOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly queueArn: string;
  readonly invoke: (event: unknown) => Promise<Invocation>;
  /** Workers at once. */
  readonly concurrency: number;
  readonly warn: (message: string) => void;
}

export interface EventSource {
  /** Takes no more messages; resolves when the workers that run have ended. */
  stop(): Promise<void>;
}

const WAIT_SECONDS = 20;
const RETRY_MS = 1_000;

const batchResponse = z.nullish(
  z.object({ batchItemFailures: z.nullish(z.array(z.object({ itemIdentifier: z.string().min(1) }))) }),
);

export function startEventSource(options: EventSourceOptions): EventSource {
  const stopping = new AbortController();
  const slots = Array.from({ length: options.concurrency }, () => poll(options, stopping.signal));
  return {
    stop: async () => {
      stopping.abort();
      await Promise.all(slots);
    },
  };
}

async function poll(options: EventSourceOptions, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    try {
      const [message] = await receive(options, stopping);
      if (message !== undefined) await deliver(options, message);
    } catch (error) {
      if (stopping.aborted) return;
      options.warn(`the queue cannot be read: ${String(error)}`);
      await pause(RETRY_MS, stopping);
    }
  }
}

async function receive(
  { client, queueUrl }: EventSourceOptions,
  abortSignal: AbortSignal,
): Promise<Message[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 1,
      WaitTimeSeconds: WAIT_SECONDS,
      MessageSystemAttributeNames: ['All'],
    }),
    { abortSignal },
  );
  return Messages;
}

/** A message that is not deleted comes again when its visibility ends; the worker has set that to its back-off. */
async function deliver(options: EventSourceOptions, message: Message): Promise<void> {
  const { client, queueUrl, queueArn, warn } = options;
  const { MessageId, ReceiptHandle, Body, Attributes, MD5OfBody } = message;
  const record = {
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    attributes: Attributes ?? {},
    messageAttributes: {},
    md5OfBody: MD5OfBody,
    eventSource: 'aws:sqs',
    eventSourceARN: queueArn,
    awsRegion: queueArn.split(':')[3],
  };
  const invocation = await options.invoke({ Records: [record] });
  if (!invocation.ok) {
    warn(`the worker failed: ${invocation.errorType}: ${invocation.errorMessage}`);
    return;
  }
  if (isAcknowledged(invocation.result, MessageId)) {
    await client.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
  }
}

function isAcknowledged(result: unknown, messageId: string | undefined): boolean {
  const parsed = batchResponse.safeParse(result);
  if (!parsed.success) return false;
  // With one message in the batch, its id and an unknown one come to the same: nothing is deleted.
  return messageId !== undefined && (parsed.data?.batchItemFailures ?? []).length === 0;
}
