/**
 * How long a message stays hidden from other workers. The queue hides it for six times the worker's timeout, which
 * would make a crashed worker's message wait for hours: the worker takes less and renews it while it lives.
 */
import type { Logger } from '@aws-lambda-powertools/logger';
import type { ErrorKind } from '../provider/provider-error.ts';
import type { QueueRecord } from './event-batch.ts';
import type { Runtime } from './runtime.ts';

const HELD_SECONDS = 120;
/** A third, so that two renewals may fail before another worker joins in. */
const RENEW_EVERY_MS = (HELD_SECONDS * 1000) / 3;

const FIRST_BACKOFF_SECONDS = 15;
/** A host without room needs somebody to delete something. */
const FIRST_BACKOFF_SECONDS_EXHAUSTED = 60;
const MAX_BACKOFF_SECONDS = 900;

type VisibilityRuntime = Pick<Runtime, 'queue' | 'pause' | 'random'>;

/** Works while the message is held. The last renewal has ended when it returns: none can undo a back-off set after. */
export async function whileHeld<T>(
  runtime: VisibilityRuntime,
  record: QueueRecord,
  log: Logger,
  work: () => Promise<T>,
): Promise<T> {
  await setVisibility(runtime, record, HELD_SECONDS, log);
  const done = new AbortController();
  const renewing = renew(runtime, record, log, done.signal);
  try {
    return await work();
  } finally {
    done.abort();
    await renewing;
  }
}

async function renew(
  runtime: VisibilityRuntime,
  record: QueueRecord,
  log: Logger,
  done: AbortSignal,
): Promise<void> {
  while (!done.aborted) {
    await runtime.pause(RENEW_EVERY_MS, done);
    if (!done.aborted) await setVisibility(runtime, record, HELD_SECONDS, log);
  }
}

/** Leaves a failed message hidden for a while before it is delivered again. */
export async function backOff(
  runtime: VisibilityRuntime,
  record: QueueRecord,
  kind: ErrorKind,
  log: Logger,
): Promise<number> {
  const seconds = backoffSeconds(record.receiveCount, kind, runtime.random());
  await setVisibility(runtime, record, seconds, log);
  return seconds;
}

/** Doubles per delivery up to a quarter of an hour; the upper half is jitter, so that a fleet does not retry as one. */
export function backoffSeconds(receiveCount: number, kind: ErrorKind, random: number): number {
  const first = kind === 'exhausted' ? FIRST_BACKOFF_SECONDS_EXHAUSTED : FIRST_BACKOFF_SECONDS;
  const full = Math.min(MAX_BACKOFF_SECONDS, first * 2 ** Math.min(receiveCount - 1, 10));
  return Math.round(full / 2 + (full / 2) * random);
}

/** A failure is only logged: the message then stays hidden for as long as it was before, which is safe. */
async function setVisibility(
  runtime: VisibilityRuntime,
  record: QueueRecord,
  seconds: number,
  log: Logger,
): Promise<void> {
  try {
    await runtime.queue.setVisibility(record.receiptHandle, seconds);
  } catch (error) {
    log.warn('changing the visibility of a message failed', {
      messageId: record.messageId,
      seconds,
      error: error instanceof Error ? error : new Error(String(error)),
    });
  }
}
