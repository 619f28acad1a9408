import { createServer, type Server, type Socket } from 'node:net';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { AWS_TIMEOUTS, createWorkQueue } from '../../../lib/lambda/work-queue.ts';
import type { WorkMessage } from '../../../lib/provider/work.ts';

const MESSAGE: WorkMessage = {
  v: 1,
  op: 'create',
  host: 'kvm-a',
  name: 'proxy-1',
  uid: 'uid-1',
  uuid: '6a7f2f5e-7c53-4c6b-9d2b-0b8f6f0f6d11',
  attempt: 0,
  notBefore: 0,
};
const CREDENTIALS = { accessKeyId: 'local', secretAccessKey: 'local' };

describe('the work queue', () => {
  let sqs: FauxqsServer;
  let queueUrl: string;
  const client = () =>
    new SQSClient({ endpoint: sqs.address, region: 'us-east-1', credentials: CREDENTIALS });

  beforeAll(async () => {
    sqs = await startFauxqs({ port: 0, logger: false, host: '127.0.0.1' });
    ({ queueUrl } = sqs.createQueue('work'));
  });
  afterAll(() => sqs.stop());

  it('sends a message with its delay, in whole seconds that SQS accepts', async () => {
    const queue = createWorkQueue({ queueUrl, client: client() });

    await queue.send(MESSAGE, 0);
    await queue.send({ ...MESSAGE, attempt: 1 }, 0.2);
    await queue.send({ ...MESSAGE, attempt: 2 }, 5_000);

    const { messages } = sqs.inspectQueue('work') ?? { messages: undefined };
    const bodies = [...(messages?.ready ?? []), ...(messages?.delayed ?? [])].map(({ body }) =>
      JSON.parse(body),
    );
    expect(bodies).toEqual([MESSAGE, { ...MESSAGE, attempt: 1 }, { ...MESSAGE, attempt: 2 }]);
    expect(messages?.delayed).toHaveLength(2);
  });

  it('says what is missing when the function has no queue', async () => {
    const queue = createWorkQueue({ queueUrl: undefined });

    await expect(queue.send(MESSAGE, 0)).rejects.toMatchObject({
      kind: 'permanent',
      message: expect.stringContaining('KVM_FUNCTIONS_QUEUE_URL'),
    });
  });

  it('reports a queue that is not there as transient: it may be there for the next attempt', async () => {
    const queue = createWorkQueue({ queueUrl: `${queueUrl}-other`, client: client() });

    await expect(queue.send(MESSAGE, 0)).rejects.toMatchObject({ kind: 'transient' });
  });
});

describe('a queue behind a black hole', () => {
  let server: Server | undefined;
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    server?.close();
  });

  it('LM-10: an endpoint that accepts and never answers fails after seconds, not at the function’s timeout', async () => {
    const silent = createServer((socket) => sockets.push(socket));
    server = silent;
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const endpoint = `http://127.0.0.1:${port}`;
    const timeouts = { ...AWS_TIMEOUTS, connectionTimeout: 100, requestTimeout: 100 };
    const hole = new SQSClient({
      endpoint,
      region: 'us-east-1',
      credentials: CREDENTIALS,
      requestHandler: timeouts,
      maxAttempts: 2,
    });

    const sending = createWorkQueue({ queueUrl: `${endpoint}/000000000000/work`, client: hole }).send(
      MESSAGE,
      0,
    );

    await expect(sending).rejects.toMatchObject({ kind: 'transient', cause: { name: 'TimeoutError' } });
    expect(sockets.length).toBeGreaterThan(0);
    expect(2 * (AWS_TIMEOUTS.connectionTimeout + AWS_TIMEOUTS.requestTimeout)).toBeLessThan(20_000);
  });
});
