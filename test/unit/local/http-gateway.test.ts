import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createFunctionHost } from '../../../infra/local/function-host.ts';
import { type HttpGateway, startHttpGateway } from '../../../infra/local/http-gateway.ts';
import type { FunctionHandler } from '../../../lib/lambda/runtime.ts';

let gateway: HttpGateway | undefined;
afterEach(() => gateway?.close());

/** Every function answers with what reached it. */
const echo: FunctionHandler = async (event, context) => ({
  statusCode: 200,
  headers: { 'content-type': 'application/json', 'x-function': context.functionName },
  body: JSON.stringify(event),
});

async function start(overrides: Record<string, FunctionHandler> = {}): Promise<string> {
  const names = ['create', 'get', 'list', 'delete', 'not-found', 'worker', 'gc'];
  const handlers = new Map(names.map((name) => [name, overrides[name] ?? echo]));
  gateway = await startHttpGateway(createFunctionHost(handlers), 0);
  return gateway.url;
}

async function ask(url: string, init: RequestInit = {}) {
  const response = await fetch(url, init);
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    event: text === '' ? {} : Object(JSON.parse(text)),
  };
}

/** For targets that fetch would normalise. */
async function askRaw(
  url: string,
  requestLine: string,
): Promise<{ status: number; event: Record<string, unknown> }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.end(`${requestLine} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  let text = '';
  for await (const chunk of socket) text += chunk;
  const [head = '', body = ''] = text.split('\r\n\r\n', 2);
  return { status: Number(head.split(' ')[1]), event: Object(JSON.parse(body)) };
}

describe('the gateway', () => {
  it.each([
    ['POST', '/instances', 'create'],
    ['GET', '/instances?limit=1', 'list'],
    ['GET', '/instances/kvm-a/a', 'get'],
    ['DELETE', '/instances/kvm-a/a', 'delete'],
    ['PUT', '/instances/kvm-a/a', 'not-found'],
    ['GET', '/instances/', 'not-found'],
    ['GET', '/', 'not-found'],
    ['GET', '/2015-03-31/functions/get/invocations', 'not-found'],
  ])('sends %s %s to %s', async (method, target, name) => {
    const { headers, event } = await ask(`${await start()}${target}`, { method });

    expect(headers.get('x-function')).toBe(name);
    expect(event).toMatchObject({ version: '2.0', requestContext: { http: { method } } });
  });

  it('hands parameters on as they were sent and the path decoded, as API Gateway does', async () => {
    const { event } = await ask(`${await start()}/instances/kvm%2Da/a%20b?label=a%3Db&label=c&x=`);

    expect(event).toMatchObject({
      routeKey: 'GET /instances/{host}/{name}',
      rawPath: '/instances/kvm-a/a b',
      pathParameters: { host: 'kvm%2Da', name: 'a%20b' },
      rawQueryString: 'label=a%3Db&label=c&x=',
      queryStringParameters: { label: 'a=b,c', x: '' },
    });
  });

  it('leaves dots, doubled slashes and broken percent signs in the path alone', async () => {
    const url = await start();

    expect((await askRaw(url, 'GET /instances/../get')).event).toMatchObject({
      pathParameters: { host: '..', name: 'get' },
    });
    expect((await askRaw(url, 'GET //instances')).event).toMatchObject({
      routeKey: '$default',
      rawPath: '//instances',
    });
    expect((await askRaw(url, 'GET /instances/kvm-a/%zz')).event).toMatchObject({
      rawPath: '/instances/kvm-a/%zz',
    });
  });

  it('sends text as text and everything else, damaged text included, in base64', async () => {
    const url = `${await start()}/instances`;
    const send = async (body: Uint8Array<ArrayBuffer>, type: string) =>
      (await ask(url, { method: 'POST', body, headers: { 'content-type': type } })).event;
    const text = Buffer.from('{"name":"ü"}');
    const damaged = Buffer.from([0x7b, 0xff]);

    expect(await send(text, 'application/json; charset=utf-8')).toMatchObject({
      body: '{"name":"ü"}',
      isBase64Encoded: false,
    });
    expect(await send(text, 'application/octet-stream')).toMatchObject({
      body: text.toString('base64'),
      isBase64Encoded: true,
    });
    expect(await send(damaged, 'application/json')).toMatchObject({
      body: damaged.toString('base64'),
      isBase64Encoded: true,
    });
  });

  it('lower-cases header names and joins duplicates with commas', async () => {
    const headers = new Headers([
      ['Idempotency-Key', 'a'],
      ['idempotency-key', 'b'],
    ]);

    const { event } = await ask(`${await start()}/instances`, { headers });

    expect(event.headers['idempotency-key'].replaceAll(' ', '')).toBe('a,b');
  });

  it('passes status, headers and a base64 body of the answer through', async () => {
    const url = await start({
      list: async () => ({
        statusCode: 418,
        headers: { 'x-tea': 'yes' },
        body: Buffer.from('{"a":1}').toString('base64'),
        isBase64Encoded: true,
      }),
      delete: async () => ({ statusCode: 204 }),
    });

    expect(await ask(`${url}/instances`)).toMatchObject({ status: 418, text: '{"a":1}' });
    expect(await ask(`${url}/instances/a/b`, { method: 'DELETE' })).toMatchObject({ status: 204, text: '' });
  });

  it.each([
    ['throws', async () => Promise.reject(new Error('boom'))],
    ['answers nothing', async () => undefined],
    ['answers no response', async () => ({ ok: true })],
  ])('answers 500 for a function that %s', async (_, list) => {
    const answer = await ask(`${await start({ list })}/instances`);

    expect(answer).toMatchObject({ status: 500, event: { message: 'Internal Server Error' } });
  });

  it('refuses a body that the gateway does not take with 413', async () => {
    const body = Buffer.alloc(10 * 1024 * 1024 + 1);

    expect((await ask(`${await start()}/instances`, { method: 'POST', body })).status).toBe(413);
  });

  it('listens on loopback only and says so when the port is taken', async () => {
    const url = await start();
    const taken = startHttpGateway(createFunctionHost(new Map()), Number(new URL(url).port));

    await expect(taken).rejects.toMatchObject({ code: 'EADDRINUSE', address: '127.0.0.1' });
  });

  it('lets a request that is being answered end before it closes', async () => {
    let finish: () => void = () => undefined;
    const entered = Promise.withResolvers<void>();
    const url = await start({
      list: async () => {
        entered.resolve();
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return { statusCode: 200, body: '{}' };
      },
    });

    const asking = ask(`${url}/instances`, { headers: { connection: 'close' } });
    await entered.promise;
    const closing = gateway?.close();
    finish();

    expect((await asking).status).toBe(200);
    await closing;
  });
});

describe('Invoke', () => {
  const invoke = async (url: string, name: string, body: string, headers: Record<string, string> = {}) =>
    ask(`${url}/2015-03-31/functions/${name}/invocations`, { method: 'POST', body, headers });

  it.each([
    'get',
    'get:$LATEST',
    encodeURIComponent('arn:aws:lambda:eu-central-1:000000000000:function:get:live'),
  ])('hands the payload to the function %s and its result back', async (name) => {
    const url = await start({ get: async (event) => ({ got: event }) });

    const answer = await invoke(url, name, '{"id":"kvm-a/a"}');

    expect(answer).toMatchObject({ status: 200, event: { got: { id: 'kvm-a/a' } } });
    expect(answer.headers.get('x-amz-function-error')).toBeNull();
  });

  it('reports what the function throws under its own name', async () => {
    const url = await start({
      get: async () => {
        throw Object.assign(new Error('taken'), { name: 'Conflict' });
      },
    });

    const answer = await invoke(url, 'get', '{}');

    expect(answer).toMatchObject({ status: 200, event: { errorType: 'Conflict', errorMessage: 'taken' } });
    expect(answer.headers.get('x-amz-function-error')).toBe('Unhandled');
  });

  it('takes a missing payload for an empty object and no result for null', async () => {
    const url = await start({ gc: async (event) => (JSON.stringify(event) === '{}' ? undefined : 'other') });

    expect((await invoke(url, 'gc', '')).text).toBe('null');
  });

  it.each([
    ['unknown', '{}', {}, 404, 'ResourceNotFoundException'],
    ['get', '{', {}, 400, 'InvalidRequestContentException'],
    ['get', '{}', { 'x-amz-invocation-type': 'Later' }, 400, 'InvalidParameterValueException'],
  ])('answers Invoke of %s with %s %j by %i %s', async (name, body, headers, status, type) => {
    const answer = await invoke(await start(), name, body, headers);

    expect(answer.status).toBe(status);
    expect(answer.headers.get('x-amzn-errortype')).toBe(type);
  });

  it('does not wait for an invocation of type Event, and does not run one of type DryRun', async () => {
    const seen: unknown[] = [];
    const url = await start({
      gc: async (event) => {
        seen.push(event);
      },
    });

    const dry = await invoke(url, 'gc', '{"n":1}', { 'x-amz-invocation-type': 'DryRun' });
    const later = await invoke(url, 'gc', '{"n":2}', { 'x-amz-invocation-type': 'Event' });

    expect([dry.status, later.status]).toEqual([204, 202]);
    expect(seen).toEqual([{ n: 2 }]);
  });

  it.each(['RequestResponse', 'Event'])(
    'hands a payload on that is nested deeper than JSON can be written, by %s',
    async (type) => {
      const depths: number[] = [];
      const url = await start({
        get: async (event) => {
          depths.push(depthOf(event));
        },
      });
      const payload = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;

      const answer = await invoke(url, 'get', payload, { 'x-amz-invocation-type': type });

      expect(answer.status).toBeLessThan(300);
      expect(depths).toEqual([50_000]);
    },
  );
});

function depthOf(value: unknown): number {
  let depth = 0;
  for (let inner = value; Array.isArray(inner); inner = inner[0]) depth += 1;
  return depth;
}
