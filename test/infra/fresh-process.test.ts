/**
 * The functions keep no state outside the hypervisors and the queue. Every invocation here is a process of its own that
 * runs the deployed bundle, with Node's permission model refusing every write to the file system: what one invocation
 * knows of another's work, it can only have read from a host or from a message.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DeleteMessageCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';
import { startEmbeddedHost } from '../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../infra/local/hypervisor/ssh-key.ts';
import { startLocalQueue } from '../../infra/local/local-queue.ts';
import { ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';

const run = promisify(execFile);
const FUNCTIONS = ['create', 'get', 'list', 'delete', 'worker', 'gc'] as const;
type FunctionName = (typeof FUNCTIONS)[number];

/** As the Lambda runtime does it. The answer is the last line, since a function's log goes to the same place. */
const INVOKE = `
const { handler } = require(process.argv[1]);
const context = { awsRequestId: 'r-1', functionName: 'f', getRemainingTimeInMillis: () => 25000 };
handler(JSON.parse(process.argv[2]), context).then(
  (result) => console.log('\\n' + JSON.stringify({ result })),
  (error) => console.log('\\n' + JSON.stringify({ error: error.name })),
);`;

const closers: (() => Promise<unknown> | unknown)[] = [];
let folder: string;
let invoke: (name: FunctionName, event: unknown) => Promise<unknown>;
let queue: Awaited<ReturnType<typeof startLocalQueue>>;
let host: Awaited<ReturnType<typeof startEmbeddedHost>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvmfn-fresh-'));
  const key = generateSshKey();
  host = await startEmbeddedHost({ name: 'kvm-a', bootMs: 0, authorizedKeys: [key.publicKey] });
  const image = await ImageServer.start(tinyRawImage());
  queue = await startLocalQueue();
  closers.push(
    () => host.close(),
    () => image.close(),
    () => queue.close(),
  );
  writeFileSync(join(folder, 'key'), key.privateKey, { mode: 0o600 });
  const config = {
    fleet: 'fresh',
    ssh: {
      user: host.user,
      privateKey: { file: join(folder, 'key') },
      knownHosts: { text: host.knownHosts },
    },
    hosts: [
      { name: 'kvm-a', address: host.address, port: host.port, socket: host.socketPath, bridge: 'br0' },
    ],
    machineTypes: { small: { vcpus: 1, memoryMiB: 128 } },
    images: { tiny: { url: image.url, format: 'raw', checksum: image.checksum } },
    diskSizeGb: 1,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  await Promise.all(FUNCTIONS.map((name) => bundleFunction(name, join(folder, name))));
  const environment = {
    KVM_FUNCTIONS_CONFIG: join(folder, 'config.json'),
    KVM_FUNCTIONS_QUEUE_URL: queue.url,
    AWS_ENDPOINT_URL_SQS: queue.endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  };
  invoke = async (name, event) => {
    const args = [
      '--permission',
      '--allow-fs-read=*',
      '-e',
      INVOKE,
      join(folder, name, 'index.js'),
      JSON.stringify(event),
    ];
    const { stdout } = await run(process.execPath, args, { cwd: '/', env: environment });
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  };
}, 120_000);

afterAll(async () => {
  for (const close of closers) await close();
  rmSync(folder, { recursive: true });
});

/** Delivers what is visible in the queue, each message to a worker process of its own. */
async function deliver(): Promise<number> {
  const { Messages = [] } = await queue.client.send(
    new ReceiveMessageCommand({ QueueUrl: queue.url, MaxNumberOfMessages: 10 }),
  );
  for (const { MessageId, ReceiptHandle, Body } of Messages) {
    const record = {
      messageId: MessageId,
      receiptHandle: ReceiptHandle,
      body: Body,
      attributes: { ApproximateReceiveCount: '1' },
      eventSource: 'aws:sqs',
      eventSourceARN: queue.arn,
      awsRegion: 'us-east-1',
      messageAttributes: {},
      md5OfBody: '',
    };
    expect(await invoke('worker', { Records: [record] })).toEqual({ result: { batchItemFailures: [] } });
    await queue.client.send(new DeleteMessageCommand({ QueueUrl: queue.url, ReceiptHandle }));
  }
  return Messages.length;
}

it('keeps everything on the host and in the queue: fresh processes that may not write a file do the whole job', async () => {
  const request = {
    name: 'vm-1',
    uid: 'u-1',
    placement: { host: 'kvm-a', machineType: 'small', image: 'tiny' },
  };

  expect(await invoke('create', request)).toMatchObject({
    result: { state: 'Provisioning', phase: 'importing-image' },
  });
  expect(await deliver()).toBeGreaterThan(0);
  expect(await invoke('get', { id: 'kvm-a/vm-1' })).toMatchObject({
    result: { state: 'Running', uid: 'u-1' },
  });
  expect(await invoke('create', request)).toMatchObject({ result: { state: 'Running', uid: 'u-1' } });
  expect(await invoke('create', { ...request, uid: 'u-2' })).toEqual({ error: 'Conflict' });
  expect(await invoke('list', {})).toMatchObject({
    result: { instances: [{ id: 'kvm-a/vm-1', state: 'Running' }] },
  });
  expect(await invoke('gc', { mode: 'delete' })).toMatchObject({ result: { plan: [], done: [] } });
  expect(await invoke('delete', { id: 'kvm-a/vm-1', uid: 'u-1' })).toEqual({
    result: { id: 'kvm-a/vm-1', gone: true },
  });
  expect(await invoke('get', { id: 'kvm-a/vm-1' })).toEqual({ error: 'NotFound' });
  expect(host.state.domains.all).toEqual([]);
  expect(host.sshConnections).toBe(0);
}, 120_000);

it('is refused a write by the very means that this test relies on', async () => {
  const write = `require('node:fs').writeFileSync(${JSON.stringify(join(folder, 'written'))}, '')`;

  const attempt = run(process.execPath, ['--permission', '--allow-fs-read=*', '-e', write]);

  await expect(attempt).rejects.toThrow('ERR_ACCESS_DENIED');
});
