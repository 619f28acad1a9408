import { once } from 'node:events';
import { Duplex, duplexPair } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { encodeCall, encodeKeepalive } from '../../../lib/libvirt/message.ts';
import { MessageChannel } from '../../../lib/libvirt/message-channel.ts';

/** A channel whose peer reads nothing, and what its listener was told. */
function openChannel(): {
  readonly channel: MessageChannel;
  readonly over: unknown[];
  readonly near: Duplex;
  readonly far: Duplex;
} {
  const [near, far] = duplexPair();
  const over: unknown[] = [];
  const channel = new MessageChannel(near, {
    onMessage: () => undefined,
    onOver: (reason) => over.push(reason),
  });
  return { channel, over, near, far };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a message channel', () => {
  it('lets nobody wait for room once the connection is over', async () => {
    const { channel } = openChannel();
    channel.send(new Uint8Array(1_000_000));
    const waiting = channel.writable();

    channel.fail('the peer made no sense');

    await expect(waiting).rejects.toThrow('the peer made no sense');
    await expect(channel.writable()).rejects.toThrow('the peer made no sense');
  });

  it('hands over together what is sent in one turn, and at once', async () => {
    const pieces: number[] = [];
    const stream = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => {
        pieces.push(1);
        done();
      },
      writev: (chunks, done) => {
        pieces.push(chunks.length);
        done();
      },
    });
    const channel = new MessageChannel(stream, { onMessage: () => undefined, onOver: () => undefined });

    for (let call = 0; call < 100; call += 1) channel.send(encodeKeepalive('ping'));
    await new Promise((resolve) => setImmediate(resolve));
    for (let call = 0; call < 2; call += 1) channel.send(encodeKeepalive('ping'));
    await new Promise((resolve) => setImmediate(resolve));

    expect(pieces).toEqual([100, 2]);
  });

  it('is over once, for the first reason', async () => {
    const { channel, over } = openChannel();

    channel.fail('first');
    channel.fail('second');
    await channel.close(encodeKeepalive('ping'));

    expect(over).toMatchObject([{ name: 'LibvirtTransportError', message: 'first' }]);
    expect(channel.over).toBe(over[0]);
  });

  it('frees its stream when it fails', () => {
    const { channel, near } = openChannel();

    channel.fail('the peer made no sense');

    expect(near.destroyed).toBe(true);
  });

  it('fails and frees its stream when the peer sends what cannot be a message', async () => {
    const { over, near, far } = openChannel();

    far.write(Buffer.from('HTTP/1.1 400 Bad Request\r\n'));
    await once(near, 'close');

    expect(over).toMatchObject([{ message: expect.stringContaining("not libvirt's RPC") }]);
  });

  it('fails for a keepalive of a version that it does not know', async () => {
    const { over, near, far } = openChannel();
    const ping = Buffer.from(encodeKeepalive('ping'));
    ping.writeUInt32BE(2, 8);

    far.write(ping);
    await once(near, 'close');

    expect(over).toMatchObject([{ message: expect.stringContaining('program 0x6b656570 version 2') }]);
  });

  it('fails for a message that its listener cannot take, and says why', async () => {
    const [near, far] = duplexPair();
    const cause = new Error('a byte too many');
    const channel = new MessageChannel(near, {
      onMessage: () => {
        throw cause;
      },
      onOver: () => undefined,
    });

    far.write(encodeCall('connectClose', 1, undefined));
    await once(near, 'close');

    expect(channel.over).toMatchObject({
      message: 'a message could not be understood: a byte too many',
      cause,
    });
  });

  it.each([
    ['between two messages', Buffer.alloc(0), 'the connection ended'],
    ['within one', Buffer.from([0, 0, 0, 40]), 'the connection ended in the middle of a message'],
  ])('says that its peer went %s', async (_, bytes, message) => {
    const { over, near, far } = openChannel();

    far.end(bytes);
    await once(near, 'close');

    expect(over).toMatchObject([{ message }]);
  });

  it('says what broke its stream', async () => {
    const { over, near } = openChannel();
    const reset = new Error('read ECONNRESET');

    const closed = new Promise((resolve) => near.once('close', resolve));
    near.destroy(reset);
    await closed;

    expect(over).toMatchObject([{ message: 'the connection broke: read ECONNRESET', cause: reset }]);
  });

  it('ends when its stream is destroyed without a word', async () => {
    const { over, near } = openChannel();

    near.destroy();
    await once(near, 'close');

    expect(over).toMatchObject([{ message: 'the connection ended' }]);
  });

  it('says what had broken a stream before it was handed over', async () => {
    const [near] = duplexPair();
    const reset = new Error('read ECONNRESET');
    near.on('error', () => undefined);
    near.destroy(reset);
    await new Promise((resolve) => near.once('close', resolve));

    const channel = new MessageChannel(near, { onMessage: () => undefined, onOver: () => undefined });

    expect(channel.over).toMatchObject({ message: 'the connection ended: read ECONNRESET', cause: reset });
  });

  it('is closed as soon as its last message is out, and leaves no timer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { channel, near, far } = openChannel();
    const received: Buffer[] = [];
    far.on('data', (chunk: Buffer) => received.push(chunk));

    await channel.close(encodeKeepalive('ping'));

    expect(Buffer.concat(received).length).toBe(28);
    expect(near.destroyed).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each<[string, (channel: MessageChannel) => unknown]>([
    ['is closed again', (channel) => channel.close(encodeKeepalive('ping'))],
    ['fails', (channel) => channel.fail('the peer made no sense')],
    ['is given another message', (channel) => channel.send(encodeKeepalive('ping'))],
  ])('gets its last message out although it %s meanwhile', async (_, act) => {
    const { channel, far } = openChannel();
    channel.send(new Uint8Array(1_000_000));
    const closing = channel.close(encodeKeepalive('pong'));

    await act(channel);
    let received = 0;
    far.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    await closing;

    expect(received).toBe(1_000_028);
  });

  it('is closed at once when its stream breaks under the last message', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { channel, near } = openChannel();
    channel.send(new Uint8Array(1_000_000));

    const closing = channel.close(encodeKeepalive('ping'));
    near.destroy(new Error('write EPIPE'));
    await closing;

    expect(vi.getTimerCount()).toBe(0);
  });

  it('is closed after a quarter of a second when its peer takes nothing', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { channel, near } = openChannel();
    channel.send(new Uint8Array(1_000_000));
    const closing = channel.close(encodeKeepalive('ping'));
    await vi.advanceTimersByTimeAsync(249);
    expect(near.destroyed).toBe(false);

    await vi.advanceTimersByTimeAsync(1);
    await closing;

    expect(near.destroyed).toBe(true);
  });
});
