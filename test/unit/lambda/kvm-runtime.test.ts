import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHandler as createGet } from '../../../functions/get.ts';
import { createHandler as createList } from '../../../functions/list.ts';
import { type EmbeddedHost, startEmbeddedHost } from '../../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../../infra/local/hypervisor/ssh-key.ts';
import { ConfigError } from '../../../lib/config/fault.ts';
import type { Config } from '../../../lib/config/schema.ts';
import { createKvmRuntime, type KvmRuntimeParts } from '../../../lib/lambda/kvm-runtime.ts';
import { lambdaRuntime } from '../../../lib/lambda/lambda-runtime.ts';
import { asHttp, embeddedConfig, httpEvent, lambdaContext, testConfig } from './test-runtime.ts';

const LIST = httpEvent('GET', '/instances');
const key = generateSshKey();

function runtimeWith(parts: Partial<KvmRuntimeParts> & { readonly config?: Config }) {
  const { config = testConfig(), ...others } = parts;
  return createKvmRuntime({
    loadConfig: async () => config,
    readSecret: async () => key.privateKey,
    queue: { send: async () => undefined, setVisibility: async () => undefined },
    logger: new Logger({ logLevel: 'SILENT' }),
    createMetrics: () => new QuietMetrics({ namespace: 'Test' }),
    ...others,
  });
}

class QuietMetrics extends Metrics {
  override publishStoredMetrics(): this {
    this.clearMetrics();
    return this;
  }
}

describe('the runtime on an embedded host', () => {
  let host: EmbeddedHost;
  let config: Config;
  beforeAll(async () => {
    host = await startEmbeddedHost({ name: 'kvm-a', authorizedKeys: [key.publicKey] });
    config = embeddedConfig(host);
  });
  afterAll(() => host.close());

  const sessionsEnded = async () => {
    while (host.sshConnections > 0 || host.libvirt.sessions > 0) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  it('LM-01: serves the next invocation of a sandbox on a fresh session, whatever became of the last one', async () => {
    const handler = createList(runtimeWith({ config }));

    const first = asHttp(await handler(LIST, lambdaContext()));
    await sessionsEnded();
    host.dropConnections();
    host.libvirt.restart();
    const second = asHttp(await handler(LIST, lambdaContext()));
    await sessionsEnded();

    for (const { json } of [first, second])
      expect(json()).toMatchObject({ hosts: [{ name: 'kvm-a', complete: true }] });
  });

  it('LM-09: a connection that breaks after the answer leaves no rejection behind', async () => {
    const seen: unknown[] = [];
    const listen = (reason: unknown) => {
      seen.push(reason);
    };
    process.on('unhandledRejection', listen);
    process.on('uncaughtException', listen);
    try {
      const handler = createGet(runtimeWith({ config }));
      for (const breakOff of [() => host.dropConnections(), () => host.libvirt.restart()]) {
        const response = asHttp(await handler(httpEvent('GET', '/instances/kvm-a/none'), lambdaContext()));
        breakOff();
        expect(response.statusCode).toBe(404);
        await sessionsEnded();
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    } finally {
      process.off('unhandledRejection', listen);
      process.off('uncaughtException', listen);
    }

    expect(seen).toEqual([]);
  });
});

describe('what the runtime reads', () => {
  it('reads the configuration once, and again after a failure', async () => {
    let reads = 0;
    const runtime = runtimeWith({
      loadConfig: async () => {
        reads += 1;
        if (reads === 1)
          throw new ConfigError('config.yaml', [{ path: 'fleet', line: 1, detail: 'is missing' }]);
        return testConfig();
      },
    });

    const early = asHttp(await createList(runtime)(LIST, lambdaContext()));
    await Promise.all([runtime.config(), runtime.config()]);

    expect(reads).toBe(2);
    expect(early.statusCode).toBe(422);
    expect(early.json()['detail']).toContain('config.yaml:1: fleet: is missing');
  });

  it.each([
    ['AccessDeniedException', 422, 'permanent'],
    ['ResourceNotFoundException', 422, 'permanent'],
    ['TimeoutError', 503, 'transient'],
    ['InternalServiceError', 503, 'transient'],
  ])('answers a secret that fails with %s by %i', async (name, status, code) => {
    const runtime = runtimeWith({
      readSecret: async () => {
        throw new Error('Error from GetParameter', { cause: Object.assign(new Error('why'), { name }) });
      },
    });

    const response = asHttp(await createList(runtime)(LIST, lambdaContext()));

    expect(response.statusCode).toBe(status);
    expect(response.json()).toMatchObject({
      code,
      detail: expect.stringContaining('secret kvm-functions/ssh-key'),
    });
  });

  it('reads nothing when it is made, and names every fault of the file when it is used', async () => {
    const runtime = lambdaRuntime({ environment: { KVM_FUNCTIONS_CONFIG: '/nowhere/config.json' } });

    await expect(runtime.config()).rejects.toThrow(/^\/nowhere\/config\.json:1: cannot be read/);
  });
});
