/** `POST /instances`, or the create request directly: makes a VM, or joins the request that already makes it. */
import { apiFunction } from '../lib/lambda/api-function.ts';
import { toCreateRequest } from '../lib/lambda/create-request.ts';
import { createFromHttp } from '../lib/lambda/http-input.ts';
import { lambdaQueue } from '../lib/lambda/lambda-queue.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import { placementFaults } from '../lib/lambda/placement.ts';
import { createInput } from '../lib/lambda/request-schema.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';

const STATUS = { created: 201, accepted: 202, existing: 200 } as const;

export function createHandler(runtime: Runtime): FunctionHandler {
  return apiFunction(runtime, {
    operation: 'create',
    schema: createInput,
    fromHttp: createFromHttp,
    check: placementFaults,
    prepare: toCreateRequest,
    run: async (provider, request) => {
      const { outcome, instance } = await provider.create(request);
      return { status: STATUS[outcome], body: instance, headers: { location: `/instances/${instance.id}` } };
    },
  });
}

export const handler = createHandler(lambdaRuntime({ queue: lambdaQueue() }));
