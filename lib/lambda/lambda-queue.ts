/** The work queue of a function on AWS, from its environment (`KVM_FUNCTIONS_QUEUE_URL`). Making it connects to nothing. */
import type { WorkQueue } from './runtime.ts';
import { createWorkQueue } from './work-queue.ts';

export function lambdaQueue(environment: NodeJS.ProcessEnv = process.env): WorkQueue {
  return createWorkQueue({ queueUrl: environment['KVM_FUNCTIONS_QUEUE_URL'] });
}
