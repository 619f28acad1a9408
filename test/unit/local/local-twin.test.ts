import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Deployment, startEmbeddedDeployment } from '../../../infra/local/embedded-deployment.ts';
import { type LocalTwin, startLocalTwin } from '../../../infra/local/local-twin.ts';

describe('the local twin on the embedded hosts', () => {
  let deployment: Deployment;
  let twin: LocalTwin;
  beforeAll(async () => {
    deployment = await startEmbeddedDeployment();
    twin = await startLocalTwin({ ...deployment, port: 0, logLevel: 'SILENT' });
  });
  afterAll(async () => {
    await twin.close();
    await deployment.close();
  });

  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${twin.url}${path}`, {
      method,
      ...(body !== undefined && {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : Object(JSON.parse(text)) };
  };
  const request = (name: string) => ({
    name,
    placement: { host: 'kvm-a', machineType: 'small', image: 'debian-12' },
    cloudInit: '#cloud-config\nhostname: demo\n',
  });

  it('takes a VM from its request to an address, and away again', async () => {
    const created = await ask('POST', '/instances', request('first'));
    expect(created).toMatchObject({ status: 202, body: { state: 'Provisioning', id: 'kvm-a/first' } });

    await vi.waitFor(
      async () => {
        const { body } = await ask('GET', '/instances/kvm-a/first');
        expect(body).toMatchObject({
          state: 'Running',
          reason: null,
          ip: expect.stringMatching(/^192\.0\.2\./),
        });
      },
      { timeout: 40_000, interval: 250 },
    );
    // The image is there now, so that the next create needs no queue.
    expect(await ask('POST', '/instances', request('second'))).toMatchObject({ status: 201 });
    expect(await ask('POST', '/instances', request('second'))).toMatchObject({ status: 200 });
    expect((await ask('GET', '/instances')).body).toMatchObject({
      instances: [{ name: 'first' }, { name: 'second' }],
      hosts: [
        { name: 'kvm-a', complete: true },
        { name: 'kvm-b', complete: true },
      ],
    });

    for (const name of ['first', 'second']) {
      expect((await ask('DELETE', `/instances/kvm-a/${name}`)).status).toBe(204);
      expect((await ask('GET', `/instances/kvm-a/${name}`)).status).toBe(404);
    }
  });

  it('answers wrong requests and unknown routes with problem details', async () => {
    expect(await ask('POST', '/instances', { name: 'x' })).toMatchObject({
      status: 400,
      body: { code: 'invalid-request' },
    });
    expect(await ask('GET', '/hosts/kvm-a/metrics')).toMatchObject({
      status: 404,
      body: { code: 'not-found' },
    });
    expect(await ask('DELETE', '/instances')).toMatchObject({
      status: 405,
      body: { code: 'invalid-request' },
    });
  });

  it('names each wrong field in the message of a direct invocation, which is all that its caller sees', async () => {
    const { body } = await ask('POST', '/2015-03-31/functions/create/invocations', {
      ...request('wrong'),
      cloudInit: 'a: 1',
      networkConfig: { version: 3 },
      sshAuthorizedKeys: ['ssh-ed25519 AAAA'],
    });

    expect(body).toMatchObject({ errorType: 'InvalidRequest' });
    for (const pointer of ['/cloudInit', '/networkConfig', '/sshAuthorizedKeys/0']) {
      expect(body['errorMessage']).toContain(`${pointer} `);
    }
  });

  it('examines a host', async () => {
    const { status, body } = await ask('GET', '/hosts/kvm-b/health');

    expect({ status, host: body.host, failed: body.checks.filter(({ ok }: { ok: boolean }) => !ok) }).toEqual(
      {
        status: 200,
        host: 'kvm-b',
        failed: [],
      },
    );
    expect(await ask('GET', '/hosts/kvm-z/health')).toMatchObject({
      status: 404,
      body: { code: 'not-found' },
    });
  });

  it('runs the collector on request', async () => {
    const { body } = await ask('POST', '/2015-03-31/functions/gc/invocations', {});

    expect(body).toMatchObject({ mode: 'report', plan: [], hosts: [{ complete: true }, { complete: true }] });
  });
});
