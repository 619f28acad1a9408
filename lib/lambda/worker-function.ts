/** What stands between an SQS event and the work that one message names: holding, waiting, and what a failure means. */
import type { Logger } from '@aws-lambda-powertools/logger';
import middy from '@middy/core';
import { ProviderError } from '../provider/provider-error.ts';
import { MAX_DELAY_SECONDS, type WorkMessage } from '../provider/work.ts';
import { type BatchResponse, type QueueRecord, readBatch, readWorkMessage } from './event-batch.ts';
import { Invocation } from './invocation.ts';
import { observe } from './observe.ts';
import { asProviderError } from './problem.ts';
import { withProvider } from './provider-session.ts';
import type { FleetProvider, FunctionHandler, Runtime } from './runtime.ts';
import { backOff, whileHeld } from './visibility.ts';

type ContinueWork = (provider: FleetProvider, message: WorkMessage) => Promise<void>;

/** An import that is cut off has a claim to give back and a volume to leave consistent. */
const MARGIN_MS = 10_000;

/** Repeatable: any delivery of a message may meet another one of the same at work. */
export function workerFunction(runtime: Runtime, continueWork: ContinueWork): FunctionHandler {
  const handle = async (event: unknown): Promise<BatchResponse> => {
    if (!(event instanceof Invocation)) throw new TypeError('the observing middleware must come first');
    const records = readBatch(event.event);
    const failures = await Promise.all(
      records.map(async (record) => {
        const log = event.log.createChild({ persistentKeys: { messageId: record.messageId } });
        try {
          await handleRecord(runtime, event, record, log, continueWork);
          return [];
        } catch (error) {
          await reportFailure(runtime, record, log, asProviderError(error));
          return [{ itemIdentifier: record.messageId }];
        }
      }),
    );
    return { batchItemFailures: failures.flat() };
  };
  return middy<unknown, unknown>(handle, { timeoutEarlyInMillis: 0 }).use(
    observe(runtime, { operation: 'worker', marginMs: MARGIN_MS }),
  );
}

/** Returns when the message can be forgotten; throws when it has to come again. */
async function handleRecord(
  runtime: Runtime,
  invocation: Invocation,
  record: QueueRecord,
  log: Logger,
  continueWork: ContinueWork,
): Promise<void> {
  const message = readWorkMessage(record.body);
  if (message === null) {
    // Failing it until it is in the dead-letter queue keeps it for somebody to look at; acknowledging would not.
    throw new ProviderError('internal', 'the message is not a work message of this version');
  }
  const earlyMs = message.notBefore - runtime.now();
  if (earlyMs > 0) {
    await runtime.queue.send(message, Math.min(MAX_DELAY_SECONDS, Math.ceil(earlyMs / 1000)));
    return;
  }
  await whileHeld(runtime, record, log, () =>
    withProvider(runtime, invocation, true, async (provider) => {
      try {
        await continueWork(provider, message);
      } catch (thrown) {
        const error = asProviderError(thrown);
        if (error.retryable || error.kind === 'internal') throw error;
        // Only an error of the work itself ends it: a provider that throws one no repeat can help has recorded it.
        log.warn('given up', { ...factsOf(message), kind: error.kind, detail: error.message });
      }
    }),
  );
}

async function reportFailure(
  runtime: Runtime,
  record: QueueRecord,
  log: Logger,
  error: ProviderError,
): Promise<void> {
  const backoffSeconds = await backOff(runtime, record, error.kind, log);
  const facts = {
    ...factsOf(readWorkMessage(record.body)),
    kind: error.kind,
    detail: error.message,
    receiveCount: record.receiveCount,
    backoffSeconds,
    ...(error.cause instanceof Error && { error: error.cause }),
  };
  if (error.retryable) log.warn('failed for now', facts);
  else log.error('failed', facts);
}

function factsOf(message: WorkMessage | null): Record<string, string | number> {
  if (message === null) return {};
  return {
    op: message.op,
    host: message.host,
    name: message.name,
    uuid: message.uuid,
    attempt: message.attempt,
  };
}
