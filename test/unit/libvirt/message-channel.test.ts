import { duplexPair } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { encodeKeepalive } from '../../../lib/libvirt/message.ts';
import { MessageChannel } from '../../../lib/libvirt/message-channel.ts';

/** A channel whose peer reads nothing, and what its listener was told. */
function openChannel(): { readonly channel: MessageChannel; readonly over: unknown[] } {
  const [near] = duplexPair();
  const over: unknown[] = [];
  const channel = new MessageChannel(near, {
    onMessage: () => undefined,
    onOver: (reason) => over.push(reason),
  });
  return { channel, over };
}

describe('a message channel', () => {
  it('lets nobody wait for room once the connection is over', async () => {
    const { channel } = openChannel();
    channel.send(new Uint8Array(1_000_000));
    const waiting = channel.writable();

    channel.fail('the peer made no sense');

    await expect(waiting).rejects.toThrow('the peer made no sense');
    await expect(channel.writable()).rejects.toThrow('the peer made no sense');
  });

  it('is over once, for the first reason', async () => {
    const { channel, over } = openChannel();

    channel.fail('first');
    channel.fail('second');
    await channel.close(encodeKeepalive('ping'));

    expect(over).toMatchObject([{ name: 'LibvirtTransportError', message: 'first' }]);
    expect(channel.over).toBe(over[0]);
  });
});
