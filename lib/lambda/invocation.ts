/**
 * One invocation of a function: which way it came in, its place in the log, and how long it may take. Made by the
 * first middleware and handed to the function in place of the raw event.
 */
import type { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import { type HttpRequest, isHttpEvent, readHttpEvent } from './http-event.ts';
import type { Runtime } from './runtime.ts';

/** Left for closing sessions and sending the answer. */
const DEFAULT_MARGIN_MS = 1_500;
/** The gateway gives up after 30 s, whatever the function's own timeout is: the answer has to be ours before that. */
const GATEWAY_LIMIT_MS = 28_500;
/** For a caller that passes no Lambda context, such as a test. */
const UNKNOWN_REMAINING_MS = 28_000;

export interface InvocationOptions {
  readonly operation: string;
  /** How long before the function's own end the work must have ended. */
  readonly marginMs?: number;
}

export class Invocation {
  /** Null for a direct invocation. */
  readonly http: HttpRequest | null;
  /** The bare input of a direct invocation. */
  readonly event: unknown;
  readonly requestId: string;
  readonly startedAt: number;
  /** Milliseconds since the epoch by which the work must have ended. */
  readonly deadlineAt: number;
  readonly log: Logger;

  constructor(
    event: unknown,
    context: Partial<Context>,
    runtime: Pick<Runtime, 'logger' | 'now'>,
    { operation, marginMs = DEFAULT_MARGIN_MS }: InvocationOptions,
  ) {
    this.http = isHttpEvent(event) ? readHttpEvent(event) : null;
    this.event = event;
    this.requestId = typeof context.awsRequestId === 'string' ? context.awsRequestId : 'unknown';
    this.startedAt = runtime.now();
    const remaining = remainingMs(context);
    const limit = this.http === null ? remaining : Math.min(remaining, GATEWAY_LIMIT_MS);
    this.deadlineAt = this.startedAt + Math.max(0, limit - marginMs);
    this.log = runtime.logger.createChild({ persistentKeys: { operation } });
  }
}

function remainingMs(context: Partial<Context>): number {
  const remaining =
    typeof context.getRemainingTimeInMillis === 'function' ? context.getRemainingTimeInMillis() : Number.NaN;
  return Number.isFinite(remaining) ? remaining : UNKNOWN_REMAINING_MS;
}
