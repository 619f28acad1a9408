/**
 * The work queue on SQS. The client is loaded on first use: a get or a list never needs it, and it is the largest part
 * of a cold start.
 */
import type { SQSClient } from '@aws-sdk/client-sqs';
import { ProviderError } from '../provider/provider-error.ts';
import { MAX_DELAY_SECONDS, type WorkMessage } from '../provider/work.ts';
import type { WorkQueue } from './runtime.ts';

/** Without a route to SQS a connect would hang until the function's timeout; these leave time for an answer (LM-10). */
export const AWS_TIMEOUTS: AwsTimeouts = {
  connectionTimeout: 2_000,
  requestTimeout: 5_000,
  throwOnRequestTimeout: true,
};

export interface AwsTimeouts {
  /** Milliseconds until the TCP connection is there. */
  readonly connectionTimeout: number;
  /** Milliseconds until the response has begun. */
  readonly requestTimeout: number;
  /** The SDK only warns otherwise. */
  readonly throwOnRequestTimeout: true;
}

export interface WorkQueueOptions {
  /** Undefined until a message is to be sent or held: a function without a queue still serves what needs none. */
  readonly queueUrl: string | undefined;
  /** For the local twin; else the SDK's own environment decides. */
  readonly client?: SQSClient;
  readonly timeouts?: AwsTimeouts;
}

export function createWorkQueue({
  queueUrl,
  client: given,
  timeouts = AWS_TIMEOUTS,
}: WorkQueueOptions): WorkQueue {
  let loaded: Promise<typeof import('./sqs.ts')> | undefined;
  let client = given;
  const sqs = async () => {
    if (queueUrl === undefined || queueUrl === '') {
      throw new ProviderError('permanent', 'this function has no queue: KVM_FUNCTIONS_QUEUE_URL is not set');
    }
    loaded ??= import('./sqs.ts');
    const { SQSClient, SendMessageCommand, ChangeMessageVisibilityCommand } = await loaded;
    client ??= new SQSClient({ maxAttempts: 2, requestHandler: timeouts });
    return { client, url: queueUrl, SendMessageCommand, ChangeMessageVisibilityCommand };
  };

  return {
    send: async (message: WorkMessage, delaySeconds: number) => {
      const { client, url, SendMessageCommand } = await sqs();
      try {
        await client.send(
          new SendMessageCommand({
            QueueUrl: url,
            MessageBody: JSON.stringify(message),
            DelaySeconds: Math.min(MAX_DELAY_SECONDS, Math.max(0, Math.ceil(delaySeconds))),
          }),
        );
      } catch (cause) {
        throw new ProviderError('transient', 'the work could not be put into the queue', {
          host: message.host,
          cause,
        });
      }
    },
    setVisibility: async (receiptHandle, seconds) => {
      const { client, url, ChangeMessageVisibilityCommand } = await sqs();
      await client.send(
        new ChangeMessageVisibilityCommand({
          QueueUrl: url,
          ReceiptHandle: receiptHandle,
          VisibilityTimeout: seconds,
        }),
      );
    },
  };
}
