import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../functions/create.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import { asHttp, createTestRuntime, httpEvent, lambdaContext } from '../lambda/test-runtime.ts';

const REQUEST = { name: 'proxy-1', placement: { host: 'kvm-a', machineType: 'small', image: 'debian-12' } };

function post(body: unknown, headers: Record<string, string> = {}) {
  return httpEvent('POST', '/instances', {
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers,
  });
}

async function answerTo(event: unknown, runtime = createTestRuntime()) {
  return asHttp(await createHandler(runtime)(event, lambdaContext()));
}

describe('create over HTTP', () => {
  it.each([
    ['created', 201],
    ['accepted', 202],
  ] as const)('answers a VM that is %s with %i, the Instance and its location', async (outcome, status) => {
    const runtime = createTestRuntime();
    runtime.fleet.outcome = outcome;

    const response = await answerTo(post(REQUEST), runtime);

    expect(response.statusCode).toBe(status);
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      location: '/instances/kvm-a/proxy-1',
    });
    expect(response.json()).toMatchObject({ id: 'kvm-a/proxy-1', name: 'proxy-1' });
  });

  it('answers a VM that exists and matches with 200', async () => {
    const runtime = createTestRuntime();
    await answerTo(post(REQUEST), runtime);

    expect((await answerTo(post(REQUEST), runtime)).statusCode).toBe(200);
  });

  it('hands every field on to the provider, user-data as bytes', async () => {
    const runtime = createTestRuntime();
    const request = {
      ...REQUEST,
      uid: 'u 1',
      cloudInit: '#cloud-config\nhostname: ü\n',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the API's own notation for the VM's MAC
      networkConfig: { version: 2, ethernets: { eth: { match: { macaddress: '${mac}' }, dhcp4: true } } },
      sshAuthorizedKeys: ['ssh-ed25519 AAAA me'],
      diskSizeGb: 20,
      ttlSeconds: 600,
      labels: { team: 'net', 'example.org/tier': '' },
      protected: true,
      autostart: false,
      seed: { scrub: true },
    };

    await answerTo(post(request), runtime);

    expect(runtime.fleet.requests).toEqual([
      { ...request, cloudInit: Buffer.from('#cloud-config\nhostname: ü\n', 'utf8') },
    ]);
  });

  it('decodes user-data that says it is base64 without passing its bytes through text', async () => {
    const runtime = createTestRuntime();
    const bytes = Buffer.from([0xff, 0x00, 0xfe, 0x80, 0x0a]);
    const wrapped = bytes.toString('base64').replace(/(.{4})/g, '$1\n');

    await answerTo(post({ ...REQUEST, cloudInit: wrapped, cloudInitEncoding: 'base64' }), runtime);

    expect(runtime.fleet.requests.map(({ cloudInit }) => [...(cloudInit ?? [])])).toEqual([[...bytes]]);
  });

  it.each([
    [{ cloudInit: '%', cloudInitEncoding: 'base64' }, '/cloudInit'],
    [{ cloudInit: 'H4sIAAAA', cloudInitEncoding: 'base64' }, '/cloudInit'],
    [{ cloudInitEncoding: 'base64' }, '/cloudInitEncoding'],
  ])('refuses user-data that is not in the encoding it claims: %j', async (part, pointer) => {
    const runtime = createTestRuntime();

    const response = await answerTo(post({ ...REQUEST, ...part }), runtime);

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toMatchObject([{ pointer }]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('decodes a body that the gateway has base64-encoded', async () => {
    const runtime = createTestRuntime();
    const body = Buffer.from(JSON.stringify(REQUEST)).toString('base64');

    const response = await answerTo({ ...post(body), isBase64Encoded: true }, runtime);

    expect(response.statusCode).toBe(201);
  });

  it('takes the uid from the Idempotency-Key header', async () => {
    const runtime = createTestRuntime();

    await answerTo(post(REQUEST, { 'Idempotency-Key': 'key-7' }), runtime);
    await answerTo(post({ ...REQUEST, uid: 'key-7' }, { 'idempotency-key': 'key-7' }), runtime);

    expect(runtime.fleet.requests.map(({ uid }) => uid)).toEqual(['key-7', 'key-7']);
  });

  it('refuses a uid that differs from the header', async () => {
    const runtime = createTestRuntime();

    const response = await answerTo(post({ ...REQUEST, uid: 'a' }, { 'idempotency-key': 'b' }), runtime);

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toEqual([
      { pointer: '/uid', detail: 'differs from the Idempotency-Key header' },
    ]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('reports every fault of shape and of placement at once', async () => {
    const runtime = createTestRuntime();

    const response = await answerTo(
      post({
        name: 'Proxy_1',
        placement: { host: 'kvm-z', machineType: 'constructor', image: 'toString', rack: 3 },
        diskSizeGb: 0,
        ttl: 5,
        labels: { '=': 'x' },
      }),
      runtime,
    );

    expect(response.statusCode).toBe(400);
    expect(response.headers['content-type']).toBe('application/problem+json');
    const problem = response.json();
    expect(problem).toMatchObject({
      type: 'urn:kvm-functions:problem:invalid-request',
      status: 400,
      code: 'invalid-request',
      retryable: false,
      requestId: 'request-1',
    });
    const pointers = Array.isArray(problem['errors']) ? problem['errors'].map(({ pointer }) => pointer) : [];
    expect(pointers.sort()).toEqual([
      '/diskSizeGb',
      '/labels/=',
      '/name',
      '/placement/host',
      '/placement/image',
      '/placement/machineType',
      '/placement/rack',
      '/ttl',
    ]);
    expect(runtime.fleet.calls).toEqual([]);
  });

  it('needs a host when there are several, and none when there is one', async () => {
    const placement = { machineType: 'small', image: 'debian-12' };
    const alone = createTestRuntime({ hosts: ['kvm-a'] });

    const missing = await answerTo(post({ name: 'a', placement }));
    const chosen = await answerTo(post({ name: 'a', placement }), alone);

    expect(missing.json()['errors']).toEqual([
      { pointer: '/placement/host', detail: 'is missing; there are several: kvm-a, kvm-b' },
    ]);
    expect(chosen.statusCode).toBe(201);
  });

  it('says where malformed JSON stops being JSON, without quoting it', async () => {
    const response = await answerTo(post('{"name": "a",\n  "cloudInit": "secret" "x"}'));

    expect(response.statusCode).toBe(400);
    expect(response.json()['detail']).toContain('line 2, column 25');
    expect(response.body).not.toContain('secret');
  });

  it.each(['application/x-www-form-urlencoded', 'text/plain', 'application/json; charset=latin1'])(
    'refuses the content type %s with 415',
    async (type) => {
      const response = await answerTo(post(REQUEST, { 'Content-Type': type }));

      expect(response.statusCode).toBe(415);
      expect(response.json()).toMatchObject({ code: 'invalid-request', status: 415 });
    },
  );

  it.each(['application/json', 'Application/JSON; charset=UTF-8', 'application/vnd.example+json', ''])(
    'accepts the content type “%s”',
    async (type) => {
      const response = await answerTo(post(REQUEST, { 'content-type': type }));

      expect(response.statusCode).toBe(201);
    },
  );

  it('refuses a body past the limit with 413', async () => {
    const response = await answerTo(post({ ...REQUEST, cloudInit: 'x'.repeat(3 * 1024 * 1024) }));

    expect(response.statusCode).toBe(413);
  });

  it.each([
    ['conflict', 409, undefined],
    ['permanent', 422, undefined],
    ['exhausted', 503, '60'],
    ['transient', 503, '5'],
    ['timeout', 504, '5'],
  ] as const)('answers %s with %i', async (kind, status, retryAfter) => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = async () => {
      throw new ProviderError(kind, 'because', { host: 'kvm-a', cause: new Error('inner') });
    };

    const response = await answerTo(post(REQUEST), runtime);

    expect(response.statusCode).toBe(status);
    expect(response.headers['retry-after']).toBe(retryAfter);
    expect(response.json()).toMatchObject({
      code: kind,
      detail: 'because',
      retryable: retryAfter !== undefined,
    });
  });

  it('passes the provider’s own faults on, with their pointers', async () => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = async () => {
      throw new ProviderError('invalid-request', 'looks like base64', {
        errors: [{ pointer: '/cloudInit', detail: 'looks like base64' }],
      });
    };

    const response = await answerTo(post(REQUEST), runtime);

    expect(response.statusCode).toBe(400);
    expect(response.json()['errors']).toEqual([{ pointer: '/cloudInit', detail: 'looks like base64' }]);
  });

  it('answers a defect with 500 and tells only the log what it was', async () => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = async () => {
      throw new TypeError('undefined is not a hypervisor');
    };

    const response = await answerTo(post(REQUEST), runtime);

    expect(response.statusCode).toBe(500);
    expect(response.body).not.toContain('hypervisor');
    expect(runtime.logged.join('')).toContain('undefined is not a hypervisor');
  });

  it('logs neither user-data nor keys, whether it works, is refused or fails', async () => {
    const runtime = createTestRuntime();
    const secret = {
      cloudInit: 'hunter2',
      sshAuthorizedKeys: ['ssh-ed25519 hunter2'],
      networkConfig: { hunter2: 1 },
    };

    await answerTo(post({ ...REQUEST, ...secret }), runtime);
    await answerTo(post({ ...REQUEST, ...secret, name: '!' }), runtime);
    runtime.fleet.interrupt = async () => {
      throw new Error('broken');
    };
    await answerTo(post({ ...REQUEST, ...secret }), runtime);

    expect(runtime.logged).toHaveLength(3);
    expect(runtime.logged.join('')).not.toContain('hunter2');
  });
});

describe('create by direct invocation', () => {
  it('takes the bare request and returns the Instance', async () => {
    const result = await createHandler(createTestRuntime())(REQUEST, lambdaContext());

    expect(result).toMatchObject({ id: 'kvm-a/proxy-1', state: 'Running' });
  });

  it.each([
    ['conflict', 'Conflict'],
    ['invalid-request', 'InvalidRequest'],
    ['not-found', 'NotFound'],
    ['transient', 'Transient'],
  ] as const)('throws %s as an error of its own name %s', async (kind, name) => {
    const runtime = createTestRuntime();
    runtime.fleet.interrupt = async () => {
      throw new ProviderError(kind, 'because');
    };

    const thrown: unknown = await createHandler(runtime)(REQUEST, lambdaContext()).catch(
      (error: unknown) => error,
    );

    expect(thrown).toBeInstanceOf(Error);
    expect(Object.getOwnPropertyDescriptor(thrown, 'name')?.value).toBe(name);
    expect(thrown).toMatchObject({ message: 'because', code: kind });
  });

  it('names every fault in the message, which is all that Step Functions sees', async () => {
    const call = createHandler(createTestRuntime())({ ...REQUEST, name: '-', size: 1 }, lambdaContext());

    await expect(call).rejects.toThrow(/\/name must be a DNS label.*; \/size is not a known field/);
  });

  it('hangs nothing on the thrown error that the runtime would print', async () => {
    const call = createHandler(createTestRuntime())({ ...REQUEST, name: '-' }, lambdaContext());

    const thrown: unknown = await call.catch((error: unknown) => error);

    expect(Object.keys(Object(thrown)).sort()).toEqual(['code', 'errors', 'name', 'retryable']);
    expect(Object(thrown).cause).toBeUndefined();
  });
});
