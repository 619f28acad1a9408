/** `GET /instances`, or its query names directly: the fleet's VMs by pages, and which hosts they are whole for. */
import { apiFunction } from '../lib/lambda/api-function.ts';
import { listFromHttp } from '../lib/lambda/http-input.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { buildPage } from '../lib/lambda/page.ts';
import { requireKnownHost } from '../lib/lambda/placement.ts';
import { listInput } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'list',
    schema: listInput,
    fromHttp: listFromHttp,
    prepare: (input, config) => {
      if (input.host !== undefined) requireKnownHost(input.host, config);
      return input;
    },
    run: async (provider, input) => {
      const listing = await provider.listByTag(input.host === undefined ? {} : { host: input.host });
      return { status: 200, body: buildPage(listing, input) };
    },
  });
}

export const handler = createHandler(lambdaRuntime());
