/**
 * What every function needs beyond its input, as capabilities that are passed in. Nothing here holds a connection:
 * a provider is opened per invocation and closed before it returns, because a frozen sandbox wakes up with dead sockets.
 */
import type { Logger } from '@aws-lambda-powertools/logger';
import type { Metrics } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import type { Config } from '../config/schema.ts';
import type { Collector } from '../provider/collection.ts';
import type { HostExaminer } from '../provider/host-health.ts';
import type { Provider } from '../provider/provider.ts';
import type { Enqueue } from '../provider/work.ts';

/** What Lambda calls. The event is unknown on purpose: whoever may invoke a function may send anything. */
export type FunctionHandler = (event: unknown, context: Context) => Promise<unknown>;

export interface WorkQueue {
  readonly send: Enqueue;
  /** SQS ChangeMessageVisibility: from now, 0–43,200 seconds. */
  setVisibility(receiptHandle: string, seconds: number): Promise<void>;
}

/** What one invocation may take, and where it says what happened. */
export interface ProviderScope {
  /** Milliseconds since the epoch: the provider gives up on its own by then. */
  readonly deadlineAt: number;
  /** Aborts at that moment. */
  readonly signal: AbortSignal;
  /** Whether there is time to import an image (the worker), or it is left to the queue (the API). */
  readonly canImport: boolean;
  readonly log: Logger;
}

export type FleetProvider = Provider & Collector & HostExaminer;

export interface Runtime {
  /** Safe to call often: read once, and again after a failure. @throws ConfigError with every fault of the file. */
  config(): Promise<Config>;
  openProvider(scope: ProviderScope): Promise<FleetProvider>;
  readonly queue: WorkQueue;
  readonly logger: Logger;
  /** A fresh one per invocation: concurrent invocations (the local twin) must not share dimensions. */
  createMetrics(): Metrics;
  /** Milliseconds since the epoch. */
  now(): number;
  /** In [0, 1), for jitter. */
  random(): number;
  /** Resolves after `ms`, or as soon as the signal aborts; never rejects. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
}
