/** `DELETE /instances/{host}/{name}`, or `{ id, uid?, graceSeconds? }` directly. Safe to repeat. */
import { apiFunction } from '../lib/lambda/api-function.ts';
import { instanceFromHttp } from '../lib/lambda/http-input.ts';
import { lambdaQueue } from '../lib/lambda/lambda-queue.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { requireKnownHost } from '../lib/lambda/placement.ts';
import { deleteInput, splitId } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'delete',
    schema: deleteInput,
    fromHttp: (request) => instanceFromHttp(request, { uid: 'text', graceSeconds: 'number' }),
    prepare: (input, config) => {
      requireKnownHost(splitId(input.id).host, config);
      return input;
    },
    run: async (provider, { id, ...options }) => {
      const { gone } = await provider.delete(id, options);
      return { status: gone ? 204 : 202, body: { id, gone } };
    },
  });
}

export const handler = createHandler(lambdaRuntime({ queue: lambdaQueue() }));
