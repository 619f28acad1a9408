/**
 * Everything the CDK stack deploys, in one process: the same functions behind the same routes, a queue that speaks SQS,
 * its event source and the schedule. Only the runtime's parts differ, and those are passed in.
 */
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { createHandler as createCreate } from '../../functions/create.ts';
import { createHandler as createDelete } from '../../functions/delete.ts';
import { createHandler as createDoctor } from '../../functions/doctor.ts';
import { createHandler as createGc } from '../../functions/gc.ts';
import { createHandler as createGet } from '../../functions/get.ts';
import { createHandler as createList } from '../../functions/list.ts';
import { createHandler as createNotFound } from '../../functions/not-found.ts';
import { createHandler as createWorker } from '../../functions/worker.ts';
import type { Config } from '../../lib/config/schema.ts';
import { createKvmRuntime } from '../../lib/lambda/kvm-runtime.ts';
import { METRICS_NAMESPACE, SERVICE_NAME } from '../../lib/lambda/lambda-runtime.ts';
import type { FunctionHandler } from '../../lib/lambda/runtime.ts';
import { createWorkQueue } from '../../lib/lambda/work-queue.ts';
import { type FunctionName, ROUTES } from '../routes.ts';
import { startEventSource } from './event-source.ts';
import { createFunctionHost, type FunctionHost } from './function-host.ts';
import { startHttpGateway } from './http-gateway.ts';
import { startLocalQueue } from './local-queue.ts';
import { scheduleMs, startSchedule } from './schedule.ts';

/** The cloud has ten; these share two cores with the hosts that they talk to. */
const WORKERS = 4;
/** How long a stop waits for workers: an import may run for minutes, and its claim ends by itself. */
const STOP_PATIENCE_MS = 5_000;

export interface LocalTwinOptions {
  readonly config: Config;
  readonly readSecret: (id: string) => Promise<string>;
  /** 0 takes a free one. */
  readonly port: number;
  /** For what goes wrong outside the functions. */
  readonly warn?: (message: string) => void;
  readonly logLevel?: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR' | 'SILENT';
}

export interface LocalTwin {
  readonly url: string;
  readonly functions: FunctionHost;
  close(): Promise<void>;
}

/** @throws the gateway's listening error; nothing is left running then. */
export async function startLocalTwin(options: LocalTwinOptions): Promise<LocalTwin> {
  const { config, readSecret, port, warn = () => undefined, logLevel = 'WARN' } = options;
  const queue = await startLocalQueue();
  const runtime = createKvmRuntime({
    loadConfig: async () => config,
    readSecret,
    queue: createWorkQueue({ queueUrl: queue.url, client: queue.client }),
    logger: new Logger({ serviceName: SERVICE_NAME, logLevel }),
    createMetrics: () => new UnpublishedMetrics({ serviceName: SERVICE_NAME, namespace: METRICS_NAMESPACE }),
  });
  const handlers: Record<FunctionName, FunctionHandler> = {
    create: createCreate(runtime),
    get: createGet(runtime),
    list: createList(runtime),
    delete: createDelete(runtime),
    worker: createWorker(runtime),
    gc: createGc(runtime),
    doctor: createDoctor(runtime),
    'not-found': createNotFound(ROUTES),
  };
  const functions = createFunctionHost(new Map(Object.entries(handlers)));
  const gateway = await startHttpGateway(functions, port).catch(async (error: unknown) => {
    await queue.close();
    throw error;
  });
  const eventSource = startEventSource({
    client: queue.client,
    queueUrl: queue.url,
    queueArn: queue.arn,
    invoke: (event) => functions.invoke('worker', event),
    concurrency: WORKERS,
    warn,
  });
  const schedule = startSchedule(scheduleMs(config.aws?.schedule), async () => {
    const run = await functions.invoke('gc', { mode: config.gc.mode });
    if (!run.ok) warn(`the collector failed: ${run.errorType}: ${run.errorMessage}`);
  });

  let closing: Promise<void> | undefined;
  const close = async () => {
    await gateway.close();
    await withPatience(Promise.all([eventSource.stop(), schedule.stop(), functions.idle()]));
    await queue.close();
  };
  return {
    url: gateway.url,
    functions,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

/** There is no CloudWatch here to read them from standard output. */
class UnpublishedMetrics extends Metrics {
  override publishStoredMetrics(): this {
    this.clearMetrics();
    return this;
  }
}

async function withPatience(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, STOP_PATIENCE_MS);
  });
  await Promise.race([work, patience]);
  clearTimeout(timer);
}
