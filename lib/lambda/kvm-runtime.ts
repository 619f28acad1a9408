/**
 * The composition: how the capabilities become a provider on real hosts. The functions on AWS and the local twin
 * differ only in the parts they pass in here.
 */
import type { Logger } from '@aws-lambda-powertools/logger';
import type { Metrics } from '@aws-lambda-powertools/metrics';
import type { Config } from '../config/schema.ts';
import { resolveSecrets, SecretError, type SshSecrets } from '../config/secrets.ts';
import { createHostExaminer } from '../kvm/doctor/examine-host.ts';
import { createKvmProvider } from '../kvm/kvm-provider.ts';
import type { KvmProviderOptions } from '../kvm/provider-options.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { createDialer, createProber } from './host-dialer.ts';
import { pause } from './pause.ts';
import type { ProviderScope, Runtime, WorkQueue } from './runtime.ts';

export interface KvmRuntimeParts {
  /** Called once, and again after it has failed. @throws ConfigError */
  readonly loadConfig: () => Promise<Config>;
  readonly readSecret: (id: string) => Promise<string>;
  readonly queue: WorkQueue;
  readonly logger: Logger;
  readonly createMetrics: () => Metrics;
  /** `globalThis.fetch` unless given: what images are read with. */
  readonly fetch?: typeof globalThis.fetch;
}

export function createKvmRuntime(parts: KvmRuntimeParts): Runtime {
  const { queue, logger, createMetrics } = parts;
  const now = () => Date.now();
  let loading: Promise<Config> | undefined;
  const config = async () => {
    loading ??= parts.loadConfig();
    try {
      return await loading;
    } catch (error) {
      loading = undefined;
      throw error;
    }
  };

  return {
    config,
    openProvider: async (scope) => {
      const settings = await config();
      const secrets = await readSecrets(settings, parts.readSecret);
      const common = { ...providerSettings(settings, scope), now, randomUuid: () => crypto.randomUUID() };
      const provider = createKvmProvider({
        ...common,
        dial: createDialer(settings, secrets),
        enqueue: queue.send,
        fetch: parts.fetch ?? globalThis.fetch,
      });
      const examiner = createHostExaminer({
        ...common,
        probe: createProber(settings, secrets),
        monotonic: () => performance.now(),
      });
      return { ...provider, ...examiner };
    },
    queue,
    logger,
    createMetrics,
    now,
    random: () => Math.random(),
    pause,
  };
}

type ProviderSettings = Omit<KvmProviderOptions, 'dial' | 'enqueue' | 'fetch' | 'now' | 'randomUuid'>;

function providerSettings(config: Config, scope: ProviderScope): ProviderSettings {
  const { fleet, hosts, machineTypes, images, diskSizeGb, vendorData, readiness, deadlines } = config;
  const { deadlineAt, signal, canImport, log } = scope;
  return {
    fleet,
    hosts,
    machineTypes,
    images: Object.fromEntries(
      Object.entries(images).map(([name, { sizeBytes, ...image }]) => [
        name,
        sizeBytes === undefined ? image : { ...image, sizeBytes },
      ]),
    ),
    diskSizeGb,
    vendorData,
    readiness,
    deadlines,
    deadlineAt,
    signal,
    canImport,
    report: (event, fields) => log.info(event, { ...fields }),
  };
}

/** A secret that is not there is the operator's to repair; one that could not be asked for may be there next time. */
async function readSecrets(config: Config, readSecret: (id: string) => Promise<string>): Promise<SshSecrets> {
  try {
    return await resolveSecrets(config, { readSecret });
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    const kind = isRefusal(error.cause) ? 'permanent' : 'transient';
    throw new ProviderError(kind, `the key to the hosts: ${error.message}`, { cause: error });
  }
}

const REFUSALS = [
  'ResourceNotFoundException',
  'AccessDeniedException',
  'InvalidRequestException',
  'DecryptionFailure',
];

function isRefusal(cause: unknown): boolean {
  // Powertools wraps the client's error once; a file's error has a code of the file system.
  for (let error = cause; error instanceof Error; error = error.cause) {
    if (REFUSALS.includes(error.name) || ('code' in error && error.code === 'ENOENT')) return true;
  }
  return cause === undefined;
}
