/** An invocation's one signal outlives hundreds of calls: whatever a call or a stream put on it or into a timer must go. */
import { getEventListeners } from 'node:events';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { MESSAGE_STATUS } from '../../../lib/libvirt/message.ts';
import { eventually, FakeDaemon, type Handlers } from './fake-daemon.ts';

const dom = { name: 'vm1', uuid: new Uint8Array(16).fill(7), id: -1 };
const transfer = { vol: { pool: 'p', name: 'v', key: '/v' }, offset: 0n, length: 0n, flags: 0 };
const LIMIT_MS = 60_000;

const handlers: Handlers = {
  connectGetHostname: (call, daemon) => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
  domainGetInfo: (call, daemon) => daemon.refuse(call, { code: 42, message: 'no domain' }),
  storageVolUpload: (call, daemon) => {
    daemon.onPacket = ({ header }) => {
      if (header.status === MESSAGE_STATUS.ok) daemon.packet(call, 'ok');
    };
    daemon.reply('storageVolUpload', call, undefined);
  },
  storageVolDownload: (call, daemon) => {
    daemon.reply('storageVolDownload', call, undefined);
    daemon.packet(call, 'continue', Buffer.from('abc'));
    daemon.packet(call, 'ok');
  },
};

describe('on the signal and in the timers of an invocation, nothing stays', () => {
  let connection: LibvirtConnection;
  let daemon: FakeDaemon;
  let controller: AbortController;

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    daemon = new FakeDaemon(handlers);
    connection = await LibvirtConnection.open(daemon.client, { timeoutMs: LIMIT_MS });
    controller = new AbortController();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const left = () => ({
    listeners: getEventListeners(controller.signal, 'abort').length,
    timers: vi.getTimerCount(),
  });
  const options = () => ({ signal: controller.signal });
  const upload = (source: AsyncIterable<Uint8Array>) =>
    connection.upload('storageVolUpload', transfer, source, options());
  async function download(): Promise<void> {
    for await (const _ of connection.download('storageVolDownload', transfer, options())) {
      // Only its end matters.
    }
  }

  it('after opening', () => {
    expect(left()).toEqual({ listeners: 0, timers: 0 });
  });

  it.each([
    ['an answer', () => connection.call('connectGetHostname', undefined, options())],
    ['a refusal', () => connection.call('domainGetInfo', { dom }, options())],
    [
      'arguments that cannot be sent',
      () => connection.call('domainLookupByName', { name: 'a\0' }, options()),
    ],
    ['an upload', () => upload(Readable.from([Buffer.from('data')]))],
    ['a download', () => download()],
    [
      'a source that breaks',
      () =>
        upload(
          (async function* () {
            yield Buffer.from('data');
            throw new Error('the source broke');
          })(),
        ),
    ],
  ])('after %s', async (_, act) => {
    await act().catch(() => undefined);

    expect(left()).toEqual({ listeners: 0, timers: 0 });
  });

  it('after a deadline', async () => {
    const call = connection.call('connectGetVersion', undefined, { ...options(), timeoutMs: 50 });
    call.catch(() => undefined);
    expect(left()).toEqual({ listeners: 1, timers: 1 });

    await vi.advanceTimersByTimeAsync(50);

    await expect(call).rejects.toMatchObject({ name: 'LibvirtTimeoutError' });
    expect(left()).toEqual({ listeners: 0, timers: 0 });
  });

  it('after an abort, which every call and stream hears once', async () => {
    const hanging = new Readable({ read: () => undefined });
    const waiting = [
      connection.call('connectGetVersion', undefined, options()),
      connection.call('connectGetLibVersion', undefined, options()),
      upload(hanging),
    ];
    await daemon.called('storageVolUpload');
    await eventually(() => daemon.calls.length === 4);

    controller.abort(new Error('enough'));

    for (const each of waiting) await expect(each).rejects.toThrow('enough');
    expect(left()).toEqual({ listeners: 0, timers: 0 });
    expect(hanging.destroyed).toBe(true);
  });

  it('after the connection is lost', async () => {
    const waiting = [
      connection.call('connectGetVersion', undefined, options()),
      upload(new Readable({ read: () => undefined })),
    ];
    await daemon.called('storageVolUpload');

    daemon.end();

    for (const each of waiting) await expect(each).rejects.toMatchObject({ name: 'LibvirtTransportError' });
    expect(left()).toEqual({ listeners: 0, timers: 0 });
  });

  it('after a close with calls under way', async () => {
    const waiting = connection.call('connectGetVersion', undefined, options());
    waiting.catch(() => undefined);
    await daemon.called('connectGetVersion');

    await connection.close();

    await expect(waiting).rejects.toMatchObject({ message: 'the connection was closed' });
    expect(left()).toEqual({ listeners: 0, timers: 0 });
  });

  it('tells of no negative time when a call begins too late', async () => {
    const call = connection.call('connectGetVersion', undefined, { timeoutMs: -5 });

    await expect(call).rejects.toMatchObject({ name: 'LibvirtTimeoutError', timeoutMs: 0 });
  });
});
