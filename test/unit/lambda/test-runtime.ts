/** A runtime on a fake fleet, with its clock, queue and log in the test's hands; and the events that reach functions. */
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import type { EmbeddedHost } from '../../../infra/local/hypervisor/embedded-host.ts';
import { parseConfig } from '../../../lib/config/parse-config.ts';
import type { Config } from '../../../lib/config/schema.ts';
import { pause } from '../../../lib/lambda/pause.ts';
import type { Runtime } from '../../../lib/lambda/runtime.ts';
import type { WorkMessage } from '../../../lib/provider/work.ts';
import { createFakeFleet, type FakeFleet } from './fake-fleet.ts';

const KNOWN_HOST_KEY = 'AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

export function testConfig(hosts: readonly string[] = ['kvm-a', 'kvm-b']): Config {
  return parsed({
    fleet: 'demo',
    ssh: {
      user: 'kvmfn',
      privateKey: { secret: 'kvm-functions/ssh-key' },
      knownHosts: {
        text: hosts.map((_, index) => `192.0.2.${index + 1} ssh-ed25519 ${KNOWN_HOST_KEY}\n`).join(''),
      },
    },
    hosts: hosts.map((name, index) => ({ name, address: `192.0.2.${index + 1}`, bridge: 'br0' })),
    machineTypes: { small: { vcpus: 1, memoryMiB: 1024 } },
    images: {
      'debian-12': {
        url: 'https://images.example.test/d.qcow2',
        format: 'qcow2',
        checksum: `sha256:${'0'.repeat(64)}`,
      },
    },
  });
}

/** One host, `kvm-a`, that is embedded in this process and reached as a real one is. */
export function embeddedConfig({ address, port, user, socketPath, knownHosts }: EmbeddedHost): Config {
  return parsed({
    ...testConfig(['kvm-a']),
    ssh: {
      user,
      privateKey: { secret: 'kvm-functions/ssh-key' },
      knownHosts: { text: `${knownHosts}\n` },
    },
    hosts: [{ name: 'kvm-a', address, port, socket: socketPath, bridge: 'br0' }],
  });
}

function parsed(document: object): Config {
  const result = parseConfig(JSON.stringify(document), { file: '/etc/test/config.json' });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.config;
}

export interface TestRuntime extends Runtime {
  readonly fleet: FakeFleet;
  readonly sent: { readonly message: WorkMessage; readonly delaySeconds: number }[];
  readonly visibility: { readonly handle: string; readonly seconds: number }[];
  /** Everything that was logged, as the JSON that would have been printed. */
  readonly logged: string[];
  clock: number;
}

export function createTestRuntime(
  overrides: Partial<Runtime> & { hosts?: readonly string[] } = {},
): TestRuntime {
  const { hosts, ...parts } = overrides;
  const config = testConfig(hosts);
  const fleet = createFakeFleet(config.hosts.map(({ name }) => name));
  const logged: string[] = [];
  const runtime: TestRuntime = {
    fleet,
    sent: [],
    visibility: [],
    logged,
    clock: Date.parse('2026-02-01T00:00:00Z'),
    config: async () => config,
    openProvider: async ({ signal }) => fleet.open(signal),
    queue: {
      send: async (message, delaySeconds) => {
        runtime.sent.push({ message, delaySeconds });
      },
      setVisibility: async (handle, seconds) => {
        runtime.visibility.push({ handle, seconds });
      },
    },
    logger: new RecordingLogger(logged),
    createMetrics: () => new SilentMetrics({ namespace: 'Test' }),
    now: () => runtime.clock,
    random: () => 0.5,
    pause,
    ...parts,
  };
  return runtime;
}

class RecordingLogger extends Logger {
  readonly #lines: string[];

  constructor(lines: string[]) {
    super({ logLevel: 'DEBUG', serviceName: 'test' });
    this.#lines = lines;
  }

  protected override createLogger(): Logger {
    return new RecordingLogger(this.#lines);
  }

  protected override printLog(_level: number, log: { getAttributes(): object }): void {
    this.#lines.push(JSON.stringify(log.getAttributes(), this.getJsonReplacer()));
  }
}

class SilentMetrics extends Metrics {
  override publishStoredMetrics(): this {
    this.clearMetrics();
    return this;
  }
}

/** What API Gateway's HTTP API sends, payload 2.0. */
export function httpEvent(
  method: string,
  target: string,
  {
    body,
    headers = {},
    pathParameters,
  }: { body?: string; headers?: Record<string, string>; pathParameters?: unknown } = {},
): Record<string, unknown> {
  const [path = '', query = ''] = target.split('?', 2);
  const [, , host, name] = path.split('/');
  return {
    version: '2.0',
    routeKey: `${method} ${path}`,
    rawPath: path,
    rawQueryString: query,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    requestContext: {
      http: { method, path, protocol: 'HTTP/1.1' },
      requestId: 'gateway-1',
      stage: '$default',
    },
    ...(pathParameters !== undefined
      ? { pathParameters }
      : host !== undefined && { pathParameters: { host, name } }),
    ...(body !== undefined && { body }),
    isBase64Encoded: false,
  };
}

export function lambdaContext(remainingMs = 28_000): Context {
  return {
    callbackWaitsForEmptyEventLoop: false,
    functionName: 'create',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:eu-central-1:000000000000:function:create',
    memoryLimitInMB: '256',
    awsRequestId: 'request-1',
    logGroupName: '/aws/lambda/create',
    logStreamName: 'stream',
    getRemainingTimeInMillis: () => remainingMs,
    done: () => undefined,
    fail: () => undefined,
    succeed: () => undefined,
  };
}

export interface HttpResult {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** The response of an HTTP event, checked to be one. */
export function asHttp(result: unknown): HttpResult & { json(): Record<string, unknown> } {
  const response = Object(result);
  if (typeof response.statusCode !== 'number')
    throw new Error(`not an HTTP response: ${JSON.stringify(result)}`);
  return {
    statusCode: response.statusCode,
    headers: response.headers ?? {},
    body: response.body,
    json: () => Object(JSON.parse(response.body)),
  };
}
