import { describe, expect, it } from 'vitest';
import { createHandler as createDelete } from '../../../functions/delete.ts';
import { createHandler as createGet } from '../../../functions/get.ts';
import { createHandler as createList } from '../../../functions/list.ts';
import { fakeInstance } from '../lambda/fake-fleet.ts';
import {
  asHttp,
  createTestRuntime,
  httpEvent,
  lambdaContext,
  type TestRuntime,
} from '../lambda/test-runtime.ts';

function runtimeWith(...ids: string[]): TestRuntime {
  const runtime = createTestRuntime();
  for (const id of ids) {
    const [host = '', name = ''] = id.split('/');
    runtime.fleet.instances.set(id, fakeInstance({ host, name }));
  }
  return runtime;
}

const context = lambdaContext();

describe('get', () => {
  it('answers the Instance, over HTTP and directly', async () => {
    const runtime = runtimeWith('kvm-a/a');

    const http = asHttp(await createGet(runtime)(httpEvent('GET', '/instances/kvm-a/a'), context));
    const direct = await createGet(runtime)({ id: 'kvm-a/a' }, context);

    expect(http.statusCode).toBe(200);
    expect(http.json()).toEqual(direct);
    expect(http.headers['cache-control']).toBe('no-store');
  });

  it('answers 404 for a VM and for a host that are not there, the host without asking any', async () => {
    const runtime = runtimeWith();

    const vm = asHttp(await createGet(runtime)(httpEvent('GET', '/instances/kvm-a/a'), context));
    const callsForVm = runtime.fleet.calls.length;
    const host = asHttp(await createGet(runtime)(httpEvent('GET', '/instances/kvm-z/a'), context));

    expect([vm.statusCode, host.statusCode]).toEqual([404, 404]);
    expect(callsForVm).toBe(1);
    expect(runtime.fleet.calls).toHaveLength(1);
    expect(host.json()).toMatchObject({ code: 'not-found', detail: 'there is no such host' });
  });

  it.each([
    ['/instances/kvm-a/%zz', '{name}'],
    ['/instances/%ff/a', '{host}'],
    ['/instances/kvm-a/UPPER', '{name}'],
    ['/instances/kvm-a/a%2Fb', '{name}'],
    ['/instances/kvm-a/a?x=1', '?x'],
  ])('refuses %s and says where', async (target, pointer) => {
    const runtime = runtimeWith();

    const response = asHttp(await createGet(runtime)(httpEvent('GET', target), context));

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toMatchObject([{ pointer }]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('decodes a path segment once', async () => {
    const runtime = runtimeWith('kvm-a/a-b');

    const once = asHttp(await createGet(runtime)(httpEvent('GET', '/instances/kvm-a/a%2Db'), context));
    const twice = asHttp(await createGet(runtime)(httpEvent('GET', '/instances/kvm-a/a%252Db'), context));

    expect([once.statusCode, twice.statusCode]).toEqual([200, 400]);
  });

  it('reads the path itself where no route has filled in its parameters', async () => {
    const runtime = runtimeWith('kvm-a/a');
    const event = { ...httpEvent('GET', '/instances/kvm-a/a'), pathParameters: undefined };

    expect(asHttp(await createGet(runtime)(event, context)).statusCode).toBe(200);
  });
});

describe('delete', () => {
  it('answers 204 without a body when the VM is gone, also when it never existed', async () => {
    const runtime = runtimeWith('kvm-a/a');

    for (const name of ['a', 'never']) {
      const response = asHttp(
        await createDelete(runtime)(httpEvent('DELETE', `/instances/kvm-a/${name}`), context),
      );
      expect(response).toMatchObject({ statusCode: 204, body: undefined });
    }
    expect(runtime.fleet.instances.size).toBe(0);
  });

  it('answers 202 while the guest shuts down', async () => {
    const runtime = runtimeWith('kvm-a/a');

    const response = asHttp(
      await createDelete(runtime)(
        httpEvent('DELETE', '/instances/kvm-a/a?graceSeconds=30&uid=uid-1'),
        context,
      ),
    );

    expect(response.statusCode).toBe(202);
    expect(response.json()).toEqual({ id: 'kvm-a/a', gone: false });
  });

  it('returns the id and whether it is gone to a direct caller', async () => {
    const result = await createDelete(runtimeWith('kvm-a/a'))({ id: 'kvm-a/a', uid: 'uid-1' }, context);

    expect(result).toEqual({ id: 'kvm-a/a', gone: true });
  });

  it('hands the uid on, so that another incarnation is a conflict', async () => {
    const runtime = runtimeWith('kvm-a/a');

    const response = asHttp(
      await createDelete(runtime)(httpEvent('DELETE', '/instances/kvm-a/a?uid=old'), context),
    );

    expect(response.statusCode).toBe(409);
    expect(runtime.fleet.instances.size).toBe(1);
  });

  it.each([
    ['?graceSeconds=-1', '?graceSeconds'],
    ['?graceSeconds=1.5', '?graceSeconds'],
    ['?graceSeconds=', '?graceSeconds'],
    ['?graceSeconds=3601', '?graceSeconds'],
    ['?uid=', '?uid'],
    ['?uid=a&uid=b', '?uid'],
    ['?uid=%E2%82%AC', '?uid'],
    ['?uid=%ff', '?uid'],
    ['?force=true', '?force'],
  ])('refuses the query %s', async (query, pointer) => {
    const runtime = runtimeWith('kvm-a/a');

    const response = asHttp(
      await createDelete(runtime)(httpEvent('DELETE', `/instances/kvm-a/a${query}`), context),
    );

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toMatchObject([{ pointer }]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('refuses a body, since whoever sends a uid in one relies on it', async () => {
    const runtime = runtimeWith('kvm-a/a');
    const event = httpEvent('DELETE', '/instances/kvm-a/a', { body: '{"uid":"other"}' });

    expect(asHttp(await createDelete(runtime)(event, context)).statusCode).toBe(400);
    expect(runtime.fleet.instances.size).toBe(1);
  });
});

describe('list', () => {
  async function pages(runtime: TestRuntime, query: string): Promise<string[][]> {
    const found: string[][] = [];
    let cursor: unknown = null;
    do {
      const target = `/instances?${query}${cursor === null ? '' : `&cursor=${cursor}`}`;
      const page = asHttp(await createList(runtime)(httpEvent('GET', target), context)).json();
      found.push(Array.isArray(page['instances']) ? page['instances'].map(({ id }) => id) : []);
      cursor = page['nextCursor'];
    } while (cursor !== null);
    return found;
  }

  it('shows every VM once, ordered by host and name, over any page size', async () => {
    const ids = ['kvm-b/a', 'kvm-a/b', 'kvm-a/a', 'kvm-a/a-1', 'kvm-b/c'];
    const ordered = ['kvm-a/a', 'kvm-a/a-1', 'kvm-a/b', 'kvm-b/a', 'kvm-b/c'];

    for (const limit of [1, 2, 5, 100]) {
      expect((await pages(runtimeWith(...ids), `limit=${limit}`)).flat()).toEqual(ordered);
    }
    expect(await pages(runtimeWith(...ids), 'limit=5')).toHaveLength(1);
  });

  it('goes on after a VM that was deleted between two pages', async () => {
    const runtime = runtimeWith('kvm-a/a', 'kvm-a/b', 'kvm-a/c');
    const first = asHttp(await createList(runtime)(httpEvent('GET', '/instances?limit=2'), context)).json();
    runtime.fleet.instances.delete('kvm-a/b');

    const next = httpEvent('GET', `/instances?cursor=${first['nextCursor']}`);
    const second = asHttp(await createList(runtime)(next, context)).json();

    expect(second['instances']).toMatchObject([{ id: 'kvm-a/c' }]);
  });

  it('tells which hosts it is whole for', async () => {
    const runtime = runtimeWith('kvm-a/a');
    const hosts = [
      { name: 'kvm-a', complete: true },
      { name: 'kvm-b', complete: false, error: { code: 'transient', detail: 'unreachable' } },
    ];
    runtime.fleet.view = { ...runtime.fleet.view, hosts };

    const response = asHttp(await createList(runtime)(httpEvent('GET', '/instances'), context));

    expect(response.json()).toMatchObject({ hosts, nextCursor: null });
  });

  it('filters by host and by all of the labels given', async () => {
    const runtime = createTestRuntime();
    const labelled = (host: string, name: string, labels: Record<string, string>) =>
      runtime.fleet.instances.set(`${host}/${name}`, fakeInstance({ host, name, labels }));
    labelled('kvm-a', 'both', { team: 'net', tier: '1' });
    labelled('kvm-a', 'one', { team: 'net' });
    labelled('kvm-b', 'both', { team: 'net', tier: '1' });

    expect(await pages(runtime, 'label=team=net&label=tier%3D1')).toEqual([['kvm-a/both', 'kvm-b/both']]);
    expect(await pages(runtime, 'label=team=net&host=kvm-a')).toEqual([['kvm-a/both', 'kvm-a/one']]);
    expect(await pages(runtime, 'label=constructor=')).toEqual([[]]);
    const direct = await createList(runtime)(
      { label: ['team=net', 'tier=1'], host: 'kvm-b', limit: 1 },
      context,
    );
    expect(direct).toMatchObject({ instances: [{ id: 'kvm-b/both' }], nextCursor: null });
  });

  it.each([
    ['limit=0', '?limit'],
    ['limit=1001', '?limit'],
    ['limit=ten', '?limit'],
    ['limit=1&limit=2', '?limit'],
    ['cursor=%00', '?cursor'],
    ['cursor=a3ZtLWE', '?cursor'],
    ['label=novalue', '?label'],
    ['label=a%3Db&label=%3Db', '?label'],
    ['page=2', '?page'],
    ['host=kvm-a&host=kvm-b', '?host'],
  ])('refuses %s', async (query, pointer) => {
    const runtime = createTestRuntime();

    const response = asHttp(await createList(runtime)(httpEvent('GET', `/instances?${query}`), context));

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toMatchObject([{ pointer }]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('answers 404 for a host that is not configured', async () => {
    const response = asHttp(
      await createList(runtimeWith())(httpEvent('GET', '/instances?host=kvm-z'), context),
    );

    expect(response.statusCode).toBe(404);
  });
});
