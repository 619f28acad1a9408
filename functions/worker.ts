/**
 * The queue's consumer: goes on with creates and deletes that outlived their request. What failed for now is reported
 * back and comes again; what failed for good stands in the VM's metadata (the provider wrote it) and is acknowledged.
 */
import { lambdaQueue } from '../lib/lambda/lambda-queue.ts';
import { lambdaRuntime } from '../lib/lambda/lambda-runtime.ts';
import type { FunctionHandler, Runtime } from '../lib/lambda/runtime.ts';
import { workerFunction } from '../lib/lambda/worker-function.ts';

export function createHandler(runtime: Runtime): FunctionHandler {
  return workerFunction(runtime, (provider, message) => provider.continueWork(message));
}

export const handler = createHandler(lambdaRuntime({ queue: lambdaQueue() }));
