/**
 * The runtime of a function on AWS, from its environment. Making one reads nothing and connects to nothing: the
 * bundles are imported by tests and by the local twin as well, which pass runtimes of their own.
 */
import { join } from 'node:path';
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { requireConfig } from '../config/parse-config.ts';
import { createKvmRuntime } from './kvm-runtime.ts';
import type { Runtime } from './runtime.ts';
import { createSecretReader } from './secret-reader.ts';
import { createWorkQueue } from './work-queue.ts';

export const SERVICE_NAME = 'kvm-functions';
export const METRICS_NAMESPACE = 'KvmFunctions';

/**
 * `KVM_FUNCTIONS_CONFIG`: the configuration file, else the `config.json` beside the bundle.
 * `KVM_FUNCTIONS_QUEUE_URL`: the work queue. Endpoints and region come from the AWS SDK's own variables.
 */
export function lambdaRuntime(environment: NodeJS.ProcessEnv = process.env): Runtime {
  return createKvmRuntime({
    loadConfig: async () => requireConfig(configFile(environment)),
    readSecret: createSecretReader(),
    queue: createWorkQueue({ queueUrl: environment['KVM_FUNCTIONS_QUEUE_URL'] }),
    logger: new Logger({ serviceName: SERVICE_NAME }),
    createMetrics: () => new Metrics({ serviceName: SERVICE_NAME, namespace: METRICS_NAMESPACE }),
  });
}

function configFile(environment: NodeJS.ProcessEnv): string {
  const named = environment['KVM_FUNCTIONS_CONFIG'];
  if (named !== undefined && named !== '') return named;
  // In a bundle this is the bundle's own folder.
  return join(import.meta.dirname, 'config.json');
}
