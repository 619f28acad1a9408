import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../functions/not-found.ts';
import { routesOf } from '../../../lib/lambda/unknown-route.ts';
import { asHttp, httpEvent, lambdaContext } from '../lambda/test-runtime.ts';

const ROUTES = [
  { method: 'POST', path: '/instances' },
  { method: 'GET', path: '/instances' },
  { method: 'GET', path: '/instances/{host}/{name}' },
];

const ask = async (method: string, path: string) =>
  asHttp(await createHandler(ROUTES)(httpEvent(method, path), lambdaContext()));

describe('not-found', () => {
  it.each([
    '/',
    '/instance',
    '/instances/',
    '/instances/kvm-a',
    '/instances/kvm-a/',
    '/instances/a/b/c',
    '//instances',
  ])('answers GET %s with problem details of a 404', async (path) => {
    const response = await ask('GET', path);

    expect(response.statusCode).toBe(404);
    expect(response.headers['content-type']).toBe('application/problem+json');
    expect(response.json()).toMatchObject({
      code: 'not-found',
      status: 404,
      title: 'There is no such route',
    });
  });

  it.each([
    ['DELETE', '/instances', 'GET, POST'],
    ['HEAD', '/instances/kvm-a/a', 'GET'],
    ['get', '/instances', 'GET, POST'],
  ])('answers %s %s with 405 and the methods there are', async (method, path, allow) => {
    const response = await ask(method, path);

    expect(response.statusCode).toBe(405);
    expect(response.headers['allow']).toBe(allow);
    expect(response.json()).toMatchObject({ code: 'invalid-request', status: 405 });
  });

  it('knows no path without a table', async () => {
    const handler = createHandler(routesOf({}));

    expect(asHttp(await handler(httpEvent('DELETE', '/instances'), lambdaContext())).statusCode).toBe(404);
  });

  it('reads the table from the environment', () => {
    expect(routesOf({ KVM_FUNCTIONS_ROUTES: JSON.stringify(ROUTES) })).toEqual(ROUTES);
  });

  it.each([[undefined], [null], [{}], ['x'], [[]]])(
    'throws NotFound at a direct caller who sends %j',
    async (event) => {
      await expect(createHandler(ROUTES)(event, lambdaContext())).rejects.toMatchObject({ name: 'NotFound' });
    },
  );

  it('answers an HTTP event without method and path like any other unknown route', async () => {
    const event = { version: '2.0', requestContext: { http: {} }, rawPath: 3 };

    expect(asHttp(await createHandler(ROUTES)(event, lambdaContext())).statusCode).toBe(404);
  });
});
