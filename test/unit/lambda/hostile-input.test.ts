/**
 * No input gives a 500 and nothing that is wrong reaches a provider. The tables cross what an attacker, or a tired
 * colleague, would send with every function that takes it.
 */
import { describe, expect, it } from 'vitest';
import { createHandler as createCreate } from '../../../functions/create.ts';
import { createHandler as createDelete } from '../../../functions/delete.ts';
import { createHandler as createDoctor } from '../../../functions/doctor.ts';
import { createHandler as createGc } from '../../../functions/gc.ts';
import { createHandler as createGet } from '../../../functions/get.ts';
import { createHandler as createList } from '../../../functions/list.ts';
import { asHttp, createTestRuntime, httpEvent, lambdaContext } from './test-runtime.ts';

const REQUEST = { name: 'proxy-1', placement: { host: 'kvm-a', machineType: 'small', image: 'debian-12' } };

/** JSON values, written as text because `JSON.stringify` can express neither `__proto__` nor a lone surrogate. */
const VALUES = [
  'null',
  'true',
  'false',
  '0',
  '-1',
  '1.5',
  '1e400',
  '9007199254740993',
  '""',
  '"x"',
  '"\\u0000"',
  '"\\ud800"',
  '"💥"',
  '[]',
  '[[]]',
  '[null]',
  '{}',
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  `"${'a'.repeat(70_000)}"`,
  `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
  `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`,
];

const FIELDS = [
  'name',
  'uid',
  'placement',
  'cloudInit',
  'cloudInitEncoding',
  'networkConfig',
  'sshAuthorizedKeys',
  'diskSizeGb',
  'ttlSeconds',
  'labels',
  'protected',
  'autostart',
  'seed',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'Name',
  '',
];

/** What the schema rightly accepts in a field: such a request is for the provider to judge. */
const ACCEPTED = new Set([
  'name "x"',
  'uid "x"',
  `networkConfig {}`,
  'networkConfig {"constructor":{"prototype":{"polluted":true}}}',
  'sshAuthorizedKeys []',
  'cloudInit ""',
  'cloudInit "x"',
  'cloudInit "\\u0000"',
  'cloudInit "💥"',
  `cloudInit "${'a'.repeat(70_000)}"`,
  'labels {}',
  'protected true',
  'protected false',
  'autostart true',
  'autostart false',
]);

const field = (name: string, value: string) => {
  const others = Object.entries(REQUEST).filter(([key]) => key !== name);
  const parts = [
    ...others.map(([key, part]) => `${JSON.stringify(key)}:${JSON.stringify(part)}`),
    `${JSON.stringify(name)}:${value}`,
  ];
  return `{${parts.join(',')}}`;
};

const show = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}… (${text.length})` : text);

describe('bodies of a create', () => {
  const cases = FIELDS.flatMap((name) => VALUES.map((value) => ({ name, value, label: show(value) })));

  it.each(cases)('judges $name: $label', async ({ name, value }) => {
    const runtime = createTestRuntime();
    const handler = createCreate(runtime);

    const response = asHttp(
      await handler(httpEvent('POST', '/instances', { body: field(name, value) }), lambdaContext()),
    );
    const direct = await handler(JSON.parse(field(name, value)), lambdaContext()).then(
      () => 'made',
      (error) => error.name,
    );

    if (ACCEPTED.has(`${name} ${value}`)) {
      expect([response.statusCode, direct]).toEqual([201, 'made']);
    } else {
      expect([response.statusCode, direct]).toEqual([400, 'InvalidRequest']);
      expect(response.json()).toMatchObject({ code: 'invalid-request', errors: expect.any(Array) });
      expect(runtime.fleet.calls).toEqual([]);
    }
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  it.each(
    [
      '',
      ' ',
      '{',
      '}',
      '[',
      '"',
      'nul',
      '{"a":1,}',
      "{'a':1}",
      '{"a":1}{"b":2}',
      '\u0000',
      '﻿',
      'undefined',
      'NaN',
      '-',
      '"\\x"',
      '{"name":"a\nb"}',
      '01',
      ...VALUES,
    ].map((body) => ({ body, label: show(body) })),
  )('refuses the whole body $label', async ({ body }) => {
    const runtime = createTestRuntime();

    const response = asHttp(
      await createCreate(runtime)(httpEvent('POST', '/instances', { body }), lambdaContext()),
    );

    expect(response.statusCode).toBe(400);
    expect(Buffer.byteLength(response.body ?? '')).toBeLessThan(64 * 1024);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('answers a hundred thousand unknown fields with an answer that the gateway can carry', async () => {
    const body = JSON.stringify({
      ...REQUEST,
      ...Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`f${i}`, 1])),
    });
    const runtime = createTestRuntime();

    const response = asHttp(
      await createCreate(runtime)(httpEvent('POST', '/instances', { body }), lambdaContext()),
    );

    expect(response.statusCode).toBe(400);
    expect(Buffer.byteLength(response.body ?? '')).toBeLessThan(64 * 1024);
    expect(response.json()['detail']).toContain('more');
  });

  it.each([
    ['not base64', { isBase64Encoded: true, body: '%%%' }],
    [
      'base64 of what is not UTF-8',
      { isBase64Encoded: true, body: Buffer.from([0xff, 0xfe, 0x7b]).toString('base64') },
    ],
    ['no text', { body: 7 }],
    ['an object', { body: { name: 'a' } }],
    ['missing', { body: undefined }],
  ])('refuses a body that is %s', async (_, part) => {
    const runtime = createTestRuntime();
    const event = { ...httpEvent('POST', '/instances', { body: '{}' }), ...part };

    expect(asHttp(await createCreate(runtime)(event, lambdaContext())).statusCode).toBe(400);
    expect(runtime.fleet.calls).toEqual([]);
  });
});

const SEGMENTS = [
  '%',
  '%2',
  '%zz',
  '%ff',
  '%00',
  '%0a',
  '%2e%2e',
  '..',
  '.',
  '%2F',
  '%252F',
  'a%20b',
  '-a',
  'a-',
  'A',
  'ä',
  '%C3%A4',
  'a_b',
  'a'.repeat(64),
  'a'.repeat(10_000),
  '__proto__',
  '$(id)',
  '<script>',
  "'--",
  '*',
  '{name}',
  '%F0%9F%92%A5',
  '%ED%A0%80',
];

describe('paths', () => {
  const handlers = { get: createGet, delete: createDelete };
  const cases = Object.keys(handlers).flatMap((name) =>
    SEGMENTS.map((segment) => ({ name, segment, label: show(segment) })),
  );

  it.each(cases)(
    '$name refuses the name $label and does not know it as a host',
    async ({ name, segment }) => {
      const runtime = createTestRuntime();
      const handler = (name === 'get' ? handlers.get : handlers.delete)(runtime);
      const method = name === 'get' ? 'GET' : 'DELETE';
      const ask = async (target: string) => asHttp(await handler(httpEvent(method, target), lambdaContext()));

      expect((await ask(`/instances/kvm-a/${segment}`)).statusCode).toBe(400);
      expect([400, 404]).toContain((await ask(`/instances/${segment}/a`)).statusCode);
      await expect(handler({ id: `kvm-a/${segment}` }, lambdaContext())).rejects.toMatchObject({
        name: 'InvalidRequest',
      });
      expect(runtime.fleet.calls).toEqual([]);
    },
  );
});

const QUERIES = [
  '%',
  '=',
  '&',
  '&&',
  '=x',
  'limit',
  'limit=',
  'limit=-1',
  'limit=1e3',
  'limit=0x10',
  'limit=99999999999999999999',
  'limit=%ff',
  'limit=1&limit=1',
  'cursor',
  'cursor=%ff',
  'cursor=..',
  'cursor=a',
  'cursor=YQ',
  'cursor=YS8',
  'cursor=L2E',
  `cursor=${'A'.repeat(50_000)}`,
  'label',
  'label=',
  'label==',
  'label=a=b=c',
  'label=a%00=b',
  `label=${'a'.repeat(64)}=b`,
  'label=%ff',
  'host=',
  'host=%ff',
  'host=kvm-z',
  '__proto__=1',
  'constructor=1',
  'a[b]=c',
  'LIMIT=1',
  ...Array.from({ length: 3 }, (_, i) => `x${i}=${'y'.repeat(9_000)}`),
  Array.from({ length: 2_000 }, (_, i) => `label=k${i}=v`).join('&'),
];
const HARMLESS_QUERIES = new Set(['&', '&&']);

describe('queries of a list', () => {
  it.each(QUERIES.map((query) => ({ query, label: show(query) })))('judges ?$label', async ({ query }) => {
    const runtime = createTestRuntime();

    const response = asHttp(
      await createList(runtime)(httpEvent('GET', `/instances?${query}`), lambdaContext()),
    );

    if (HARMLESS_QUERIES.has(query)) {
      expect(response.statusCode).toBe(200);
    } else {
      expect([400, 404]).toContain(response.statusCode);
      expect(runtime.fleet.calls).toEqual([]);
    }
  });
});

/** Events that nothing documented sends. */
const EVENTS: readonly (readonly [string, unknown])[] = [
  ['undefined', undefined],
  ['null', null],
  ['a number', 7],
  ['a string', '{"id":"kvm-a/a"}'],
  ['a list', [{ id: 'kvm-a/a' }]],
  ['payload 1.0', { version: '1.0', httpMethod: 'GET', path: '/instances', requestContext: {} }],
  [
    'an EventBridge rule',
    { version: '0', 'detail-type': 'Scheduled Event', source: 'aws.events', detail: {} },
  ],
  ['an SQS batch', { Records: [{ messageId: '1', body: '{}' }] }],
  ['a null prototype', Object.assign(Object.create(null), { id: 3, label: 3, mode: 3, name: 3 })],
  ['a deep id', { id: { toString: 'x' }, label: {}, mode: {}, name: {} }],
];

const BROKEN_PARTS: readonly (readonly [string, object])[] = [
  ['headers that are null', { headers: null }],
  ['headers that are a list', { headers: ['content-type'] }],
  ['header values that are objects', { headers: { 'content-type': {}, 'idempotency-key': [] } }],
  ['path parameters that are numbers', { pathParameters: { host: 1, name: 2 } }],
  [
    'path parameters from a prototype',
    { pathParameters: Object.create({ host: 'kvm-a', name: 'a' }), rawPath: '' },
  ],
  ['no raw path', { rawPath: undefined, pathParameters: undefined }],
  ['a raw path that is an object', { rawPath: {}, pathParameters: null }],
  ['a query that is a number', { rawQueryString: 5, queryStringParameters: { limit: { a: 1 }, uid: [] } }],
  ['a body that is a list', { body: [1] }],
  ['base64 that is no flag', { isBase64Encoded: 'yes', body: 'e30=' }],
  ['http that is empty', { requestContext: { http: {} } }],
  ['a context full of holes', { requestContext: { http: { method: 3, path: null }, requestId: {} } }],
];

describe('events', () => {
  const functions = {
    create: createCreate,
    get: createGet,
    list: createList,
    delete: createDelete,
    gc: createGc,
    doctor: createDoctor,
  };

  it.each(
    Object.entries(functions).flatMap(([name, create]) =>
      EVENTS.map(([label, event]) => ({ name, create, label, event })),
    ),
  )('$name refuses $label at its caller', async ({ name, create, event }) => {
    const runtime = createTestRuntime();

    const outcome = await create(runtime)(event, lambdaContext()).then(
      () => 'done',
      (error) => error.name,
    );

    // What a missing payload means to a function all of whose input is optional.
    const fine = event === undefined && (name === 'list' || name === 'gc');
    expect(outcome).toBe(fine ? 'done' : 'InvalidRequest');
    if (!fine) expect(runtime.fleet.calls).toEqual([]);
  });

  it.each(
    Object.entries(functions).flatMap(([name, create]) =>
      BROKEN_PARTS.map(([label, part]) => ({ name, create, label, part })),
    ),
  )('$name answers an HTTP event with $label and no 5xx', async ({ create, part }) => {
    const runtime = createTestRuntime();
    const event = { ...httpEvent('GET', '/instances/kvm-a/a'), ...part };

    const response = asHttp(await create(runtime)(event, lambdaContext()));

    expect(response.statusCode).toBeLessThan(500);
  });

  it.each([
    ['empty', {}],
    ['without a clock', { ...lambdaContext(), getRemainingTimeInMillis: undefined }],
    ['with a clock that says nothing', { ...lambdaContext(), getRemainingTimeInMillis: () => Number.NaN }],
  ])('answers with a Lambda context that is %s', async (_, context) => {
    const runtime = createTestRuntime();

    const call = Reflect.apply(createList(runtime), undefined, [httpEvent('GET', '/instances'), context]);

    expect(asHttp(await call).statusCode).toBe(200);
  });
});
