/** `GET /instances/{host}/{name}`, or `{ id }` directly: one VM as its host tells it now. */
import { apiFunction } from '../lib/lambda/api-function.ts';
import { instanceFromHttp } from '../lib/lambda/http-input.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { requireKnownHost } from '../lib/lambda/placement.ts';
import { getInput, splitId } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'get',
    schema: getInput,
    fromHttp: (request) => instanceFromHttp(request, {}),
    prepare: (input, config) => {
      requireKnownHost(splitId(input.id).host, config);
      return input;
    },
    run: async (provider, { id }) => ({ status: 200, body: await provider.get(id) }),
  });
}

export const handler = createHandler(lambdaRuntime());
