/**
 * The middleware that makes an Invocation of the event and says afterwards what came of it: one log line and one set
 * of metrics (EMF on stdout, so that a function in a VPC needs no way to CloudWatch). Never the event itself: it
 * carries user-data.
 */
import type { MiddlewareObj } from '@middy/core';
import { Invocation, type InvocationOptions } from './invocation.ts';
import { asProviderError } from './problem.ts';
import type { Runtime } from './runtime.ts';

export function observe(runtime: Runtime, options: InvocationOptions): MiddlewareObj<unknown, unknown> {
  const { operation } = options;
  const finish = (invocation: Invocation, failure: string | null) => {
    const durationMs = runtime.now() - invocation.startedAt;
    const metrics = runtime.createMetrics();
    metrics.addDimension('operation', operation);
    metrics.addMetric('Duration', 'Milliseconds', durationMs);
    metrics.addMetric('Failures', 'Count', failure === null ? 0 : 1);
    if (failure !== null) metrics.addMetadata('failure', failure);
    metrics.publishStoredMetrics();
    return { durationMs, source: invocation.http === null ? 'direct' : 'http' };
  };

  return {
    before: (request) => {
      const invocation = new Invocation(request.event, request.context, runtime, options);
      if (typeof request.context.functionName === 'string') invocation.log.addContext(request.context);
      request.event = invocation;
    },
    after: ({ event }) => {
      if (!(event instanceof Invocation)) return;
      event.log.info('done', finish(event, null));
    },
    onError: ({ event, error: thrown }) => {
      if (!(event instanceof Invocation)) return;
      const error = asProviderError(thrown);
      const facts = {
        ...finish(event, error.kind),
        kind: error.kind,
        detail: error.message,
        ...(error.host !== undefined && { host: error.host }),
        ...(error.id !== undefined && { id: error.id }),
      };
      if (error.kind === 'internal') event.log.error('failed', { ...facts, error: error.cause ?? error });
      else if (error.retryable || error.kind === 'permanent') {
        event.log.warn('failed', { ...facts, error: error.cause ?? error });
      } else {
        // Without the cause: that of a wrong request may quote the input.
        event.log.info('refused', facts);
      }
    },
  };
}
