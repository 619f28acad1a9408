/** `GET /hosts/{host}/health`, or `{ host }` directly: what a VM needs of that host, looked at one by one. */
import { apiFunction } from '../lib/lambda/api-function.ts';
import { healthFromHttp } from '../lib/lambda/http-input.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { requireKnownHost } from '../lib/lambda/placement.ts';
import { doctorInput } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'doctor',
    schema: doctorInput,
    fromHttp: healthFromHttp,
    prepare: (input, config) => {
      requireKnownHost(input.host, config);
      return input;
    },
    // A host that is not well is what was asked for, not an error.
    run: async (provider, { host }) => ({ status: 200, body: await provider.examineHost(host) }),
  });
}

export const handler = createHandler(lambdaRuntime());
