/**
 * The collector, on a schedule or directly: `{ mode? }`. Decides on a view of the whole fleet and, in mode `delete`,
 * carries the decision out. Two runs at once are harmless: each action looks again at what it is about to touch.
 */
import { collect } from '../lib/gc/collect.ts';
import { apiFunction } from '../lib/lambda/api-function.ts';
import { lambdaQueue } from '../lib/lambda/lambda-queue.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { gcInput } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'gc',
    schema: gcInput,
    prepare: (input, { gc, deadlines }) => ({
      mode: input.mode ?? gc.mode,
      policy: { ...gc, deleteSeconds: deadlines.deleteSeconds },
    }),
    run: async (provider, { mode, policy }) => ({
      status: 200,
      body: await collect(provider, policy, mode, () => runtime.now()),
    }),
  });
}

export const handler = createHandler(lambdaRuntime({ queue: lambdaQueue() }));
