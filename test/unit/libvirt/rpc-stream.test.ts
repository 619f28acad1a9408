import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Wait } from '../../../lib/libvirt/deadline.ts';
import { STREAM_PAYLOAD_MAX_BYTES } from '../../../lib/libvirt/framing.ts';
import { MESSAGE_STATUS } from '../../../lib/libvirt/message.ts';
import { RpcStream, type StreamLink } from '../../../lib/libvirt/rpc-stream.ts';

const MINUTE: Wait = { timeoutMs: 60_000 };
const PACKET = new Uint8Array(STREAM_PAYLOAD_MAX_BYTES);
const EMPTY = new Uint8Array(0);

/** A link that notes what the stream asks of it. */
class FakeLink implements StreamLink {
  /** Statuses sent, 'data' for data, and 'left' with what the stream said of its opening. */
  readonly asked: (number | 'data' | { readonly left: boolean })[] = [];
  congested = false;
  room: Promise<void> = Promise.resolve();

  send(status: number): void {
    this.asked.push(status);
  }

  sendData(): void {
    this.asked.push('data');
  }

  writable(): Promise<void> {
    return this.room;
  }

  setCongested(congested: boolean): void {
    this.congested = congested;
  }

  leave(opened: boolean): void {
    this.asked.push({ left: opened });
  }
}

function makeStream(
  procedure: 'storageVolUpload' | 'storageVolDownload',
  wait = MINUTE,
): { readonly stream: RpcStream; readonly link: FakeLink } {
  const link = new FakeLink();
  return { stream: new RpcStream(procedure, wait, link), link };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a stream', () => {
  it('is open although the reply came before anybody waited for it', async () => {
    const { stream } = makeStream('storageVolUpload');

    stream.onReply();

    await expect(stream.opened()).resolves.toBeUndefined();
  });

  it('keeps data and their end for who comes later', async () => {
    const { stream, link } = makeStream('storageVolDownload');

    stream.onPacket(MESSAGE_STATUS.continue, Uint8Array.of(7));
    stream.onReply();
    stream.onPacket(MESSAGE_STATUS.ok, EMPTY);

    expect(await stream.receive()).toEqual(Uint8Array.of(7));
    expect(await stream.receive()).toBeUndefined();
    expect(link.asked).toEqual([{ left: true }]);
  });

  it('takes no end of a download before its reply', () => {
    const { stream } = makeStream('storageVolDownload');

    expect(() => stream.onPacket(MESSAGE_STATUS.ok, EMPTY)).toThrow(
      'a packet of storageVolDownload before its reply',
    );
  });

  it('that failed while nobody waited rejects whatever is asked of it, and sends nothing', async () => {
    const { stream, link } = makeStream('storageVolUpload');
    const broken = new Error('the connection broke');

    stream.onError(broken);

    await expect(stream.opened()).rejects.toBe(broken);
    await expect(stream.send(Buffer.alloc(29))).rejects.toBe(broken);
    await expect(stream.receive()).rejects.toBe(broken);
    await expect(stream.finish()).rejects.toBe(broken);
    expect(link.asked).toEqual([]);
  });

  it('given up before its reply sends nothing: the daemon does not know it yet', async () => {
    const { stream, link } = makeStream('storageVolUpload');
    const reason = new Error('no longer wanted');

    stream.abort(reason);

    await expect(stream.opened()).rejects.toBe(reason);
    expect(link.asked).toEqual([{ left: false }]);
  });

  it('given up after its reply tells the daemon once', () => {
    const { stream, link } = makeStream('storageVolUpload');
    stream.onReply();

    stream.abort(new Error('no longer wanted'));
    stream.abort(new Error('again'));

    expect(link.asked).toEqual([MESSAGE_STATUS.error, { left: true }]);
  });

  it('that has ended cannot be given up', async () => {
    const { stream, link } = makeStream('storageVolUpload');
    stream.onReply();
    const finishing = stream.finish();
    stream.onPacket(MESSAGE_STATUS.ok, EMPTY);
    await finishing;

    stream.abort(new Error('too late'));

    expect(link.asked).toEqual([MESSAGE_STATUS.ok, { left: true }]);
    await expect(stream.finish()).resolves.toBeUndefined();
  });

  it('holds the connection back above eight packets and lets it go on at eight', async () => {
    const { stream, link } = makeStream('storageVolDownload');
    stream.onReply();
    const receiveAndLook = async (): Promise<boolean> => {
      await stream.receive();
      return link.congested;
    };

    for (let packet = 0; packet < 8; packet += 1) stream.onPacket(MESSAGE_STATUS.continue, PACKET);
    expect(link.congested).toBe(false);
    for (let packet = 0; packet < 2; packet += 1) stream.onPacket(MESSAGE_STATUS.continue, PACKET);
    expect(link.congested).toBe(true);

    expect([await receiveAndLook(), await receiveAndLook()]).toEqual([true, false]);
  });

  it.each<[string, (stream: RpcStream) => void]>([
    ['the daemon reports an error', (stream) => stream.onError(new Error('no space'))],
    ['it is given up', (stream) => stream.abort(new Error('no longer wanted'))],
  ])('leaves no timer when %s while something is waited for', async (_, fail) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { stream } = makeStream('storageVolUpload');
    const opening = stream.opened();
    expect(vi.getTimerCount()).toBe(1);

    fail(stream);
    await expect(opening).rejects.toThrow();

    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves no timer when the connection has no room and never will', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { stream, link } = makeStream('storageVolUpload');
    stream.onReply();
    link.room = Promise.reject(new Error('the connection broke'));

    await expect(stream.send(Buffer.alloc(29))).rejects.toThrow('the connection broke');

    expect(vi.getTimerCount()).toBe(0);
  });
});
