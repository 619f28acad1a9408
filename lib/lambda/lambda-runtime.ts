/**
 * The runtime of a function on AWS, from its environment. Making one reads nothing and connects to nothing: the
 * bundles are imported by tests and by the local twin as well, which pass runtimes of their own.
 */
import { join } from 'node:path';
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { requireConfig } from '../config/parse-config.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { createKvmRuntime } from './kvm-runtime.ts';
import type { Runtime, WorkQueue } from './runtime.ts';
import { createSecretReader } from './secret-reader.ts';

export const SERVICE_NAME = 'kvm-functions';
export const METRICS_NAMESPACE = 'KvmFunctions';

export interface LambdaRuntimeOptions {
  /** For a function that leaves work behind (lambda-queue.ts). The others neither carry its client nor may send. */
  readonly queue?: WorkQueue;
  readonly environment?: NodeJS.ProcessEnv;
}

/**
 * `KVM_FUNCTIONS_CONFIG`: the configuration file, else the `config.json` beside the bundle. Endpoints and region come
 * from the AWS SDK's own variables.
 */
export function lambdaRuntime({
  queue = NO_QUEUE,
  environment = process.env,
}: LambdaRuntimeOptions = {}): Runtime {
  return createKvmRuntime({
    loadConfig: async () => requireConfig(configFile(environment)),
    readSecret: createSecretReader(),
    queue,
    logger: new Logger({ serviceName: SERVICE_NAME }),
    createMetrics: () => new Metrics({ serviceName: SERVICE_NAME, namespace: METRICS_NAMESPACE }),
  });
}

const refuse = async (): Promise<never> => {
  throw new ProviderError('internal', 'this function leaves no work behind: it has no queue');
};
const NO_QUEUE: WorkQueue = { send: refuse, setVisibility: refuse };

function configFile(environment: NodeJS.ProcessEnv): string {
  const named = environment['KVM_FUNCTIONS_CONFIG'];
  if (named !== undefined && named !== '') return named;
  // In a bundle this is the bundle's own folder.
  return join(import.meta.dirname, 'config.json');
}
