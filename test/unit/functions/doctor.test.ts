import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../functions/doctor.ts';
import { startEmbeddedHost } from '../../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../../infra/local/hypervisor/ssh-key.ts';
import { createKvmRuntime } from '../../../lib/lambda/kvm-runtime.ts';
import { HOST_CHECKS } from '../../../lib/provider/host-health.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import { untilLeft } from '../kvm/doctor/examined-host.ts';
import {
  asHttp,
  createTestRuntime,
  embeddedConfig,
  httpEvent,
  lambdaContext,
} from '../lambda/test-runtime.ts';

const health = (host: string) => httpEvent('GET', `/hosts/${host}/health`, { pathParameters: { host } });

describe('GET /hosts/{host}/health', () => {
  it('answers 200 with the report, whatever it says', async () => {
    const runtime = createTestRuntime();
    const report = {
      host: 'kvm-b',
      ok: false,
      checks: [{ name: 'tcp', ok: false, detail: 'no way. To do: make one', ms: 3 } as const],
    };
    runtime.fleet.health = () => report;
    const handler = createHandler(runtime);

    const response = asHttp(await handler(health('kvm-b'), lambdaContext()));
    const direct = await handler({ host: 'kvm-b' }, lambdaContext());

    expect(response.statusCode).toBe(200);
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
    });
    expect(response.json()).toEqual(report);
    expect(direct).toEqual(report);
    expect(runtime.fleet.openProviders()).toBe(0);
  });

  it('finds the host in the path of a function URL, which fills in no parameters', async () => {
    const runtime = createTestRuntime();
    const event = { ...httpEvent('GET', '/hosts/kvm-a/health'), pathParameters: undefined };

    const response = asHttp(await createHandler(runtime)(event, lambdaContext()));

    expect(response.json()).toMatchObject({ host: 'kvm-a', ok: true });
  });

  it.each([
    'kvm-z',
    'KVM-A',
    '__proto__',
    'constructor',
    '%20',
    'kvm-a%00',
    '..',
    'a'.repeat(10_000),
    '%F0%9F%92%A5',
  ])('does not know the host %.40s: 404, and nothing is dialled', async (host) => {
    const runtime = createTestRuntime();

    const response = asHttp(await createHandler(runtime)(health(host), lambdaContext()));

    expect(response.statusCode).toBe(404);
    expect(response.json()).toMatchObject({ code: 'not-found', retryable: false });
    expect(Buffer.byteLength(response.body ?? '')).toBeLessThan(1_000);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it.each([
    ['broken percent-encoding', health('%zz'), '{host}'],
    ['two segments in one', health('kvm-a%2Fkvm-b'), '{host}'],
    ['no text', httpEvent('GET', '/hosts/x/health', { pathParameters: { host: 7 } }), '{host}'],
    ['an empty one', httpEvent('GET', '/hosts//health', { pathParameters: { host: '' } }), '{host}'],
    ['a query', httpEvent('GET', '/hosts/kvm-a/health?deep=1'), '?deep'],
    ['a body', httpEvent('GET', '/hosts/kvm-a/health', { body: '{"host":"kvm-b"}' }), ''],
  ])('refuses %s with a 400 that says where', async (_what, event, pointer) => {
    const runtime = createTestRuntime();

    const response = asHttp(await createHandler(runtime)(event, lambdaContext()));

    expect(response.statusCode).toBe(400);
    expect(response.json()).toMatchObject({ code: 'invalid-request', errors: [{ pointer }] });
    expect(runtime.fleet.calls).toEqual([]);
  });

  it.each([
    ['nothing', null],
    ['no host', {}],
    ['a list', ['kvm-a']],
    ['a host that is no text', { host: 7 }],
    ['a host in a host', { host: { host: 'kvm-a' } }],
    ['an unknown field', { host: 'kvm-a', deep: true }],
    ['a polluting field', JSON.parse('{"host":"kvm-a","__proto__":{"ok":true}}')],
  ])('refuses %s by direct invocation', async (_what, event) => {
    const runtime = createTestRuntime();

    await expect(createHandler(runtime)(event, lambdaContext())).rejects.toMatchObject({
      name: 'InvalidRequest',
    });
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('throws NotFound for an unknown host by direct invocation', async () => {
    await expect(
      createHandler(createTestRuntime())({ host: 'kvm-z' }, lambdaContext()),
    ).rejects.toMatchObject({
      name: 'NotFound',
    });
  });

  it('answers what concerns the deployment and no host as the other functions do', async () => {
    const runtime = createTestRuntime({
      openProvider: async () => {
        throw new ProviderError('permanent', 'the key to the hosts: secret x: is empty');
      },
    });

    expect(asHttp(await createHandler(runtime)(health('kvm-a'), lambdaContext())).statusCode).toBe(422);
  });
});

describe('the function on the runtime of AWS', () => {
  const key = generateSshKey();

  async function onEmbeddedHost(
    remainingMs: number,
    prepare: (host: Awaited<ReturnType<typeof start>>) => unknown,
  ) {
    await using host = await start();
    await prepare(host);
    const config = embeddedConfig(host);
    const { logger, createMetrics, queue } = createTestRuntime();
    const runtime = createKvmRuntime({
      loadConfig: async () => config,
      readSecret: async () => key.privateKey,
      queue,
      logger,
      createMetrics,
    });
    const response = asHttp(await createHandler(runtime)(health('kvm-a'), lambdaContext(remainingMs)));
    await untilLeft(host);
    return { status: response.statusCode, ...response.json() };
  }
  const start = () => startEmbeddedHost({ name: 'kvm-a', authorizedKeys: [key.publicKey] });

  it('finds an embedded host well', async () => {
    const found = await onEmbeddedHost(28_000, () => undefined);

    expect(found).toMatchObject({ status: 200, host: 'kvm-a', ok: true });
    expect(found).toMatchObject({ checks: HOST_CHECKS.map((name) => ({ name, ok: true })) });
  });

  it('answers 200 before its time is up for a host that does not answer', async () => {
    const found = await onEmbeddedHost(4_000, (host) =>
      host.faults.at('connectOpen', { kind: 'no-answer' }, 'every'),
    );

    expect(found).toMatchObject({ status: 200, ok: false });
  });
});
