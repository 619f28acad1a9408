/** When a small packet is answered at once, and above all when it is not. On real sockets, whose counters decide. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { encodeKeepalive } from '../../../lib/libvirt/message.ts';
import { MessageChannel } from '../../../lib/libvirt/message-channel.ts';
import { carryAcknowledgements } from '../../../lib/ssh/ack-carrier.ts';

let near: Socket;
let far: Socket;
let sent: number;
let heard: number;
beforeEach(async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  [far] = (await once(server, 'connection')) as [Socket];
  server.close();
  sent = 0;
  heard = 0;
  near.on('data', () => {
    heard += 1;
  });
  carryAcknowledgements(near, () => {
    sent += 1;
  });
});
afterEach(() => {
  near.destroy();
  far.destroy();
});

async function receive(bytes: number): Promise<void> {
  const before = heard;
  far.write(Buffer.alloc(bytes));
  await expect.poll(() => heard).toBeGreaterThan(before);
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

it('a small packet that nothing answers is acknowledged by a packet of our own, and only once', async () => {
  await receive(100);

  expect(sent).toBe(1);
});

it('nor does the answer to an earlier one acknowledge it', async () => {
  near.once('data', () => near.write('answer'));
  near.emit('data', Buffer.alloc(100));
  setImmediate(() => near.emit('data', Buffer.alloc(100)));

  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));

  expect(sent).toBe(1);
});

it('one that is answered in the same turn is not: the answer carries the acknowledgement', async () => {
  near.on('data', () => near.write('answer'));

  await receive(100);

  expect(sent).toBe(0);
});

it('nor is one of many calls that are made one after the other, each as soon as the one before is answered', async () => {
  far.on('data', (chunk: Buffer) => far.write(chunk));
  // As a channel of SSH on the socket: what waits in it is not on its way yet.
  const channel = new Duplex({
    read: () => undefined,
    write: (chunk, _encoding, done) => {
      near.write(chunk);
      done();
    },
  });
  near.on('data', (chunk) => channel.push(chunk));
  const connection = new MessageChannel(channel, {
    onMessage: () => undefined,
    onOver: () => undefined,
  });
  const answered = () => new Promise((resolve) => near.once('data', resolve));

  for (let call = 0; call < 50; call += 1) {
    const answer = answered();
    connection.send(encodeKeepalive('pong'));
    await answer;
  }

  expect(sent).toBe(0);
});

it('nor is bulk, of which nothing is held back', async () => {
  await receive(60_000);

  expect(sent).toBe(0);
});

it('nor anything on a connection that we have ended', async () => {
  near.end();

  await receive(100);

  expect(sent).toBe(0);
});
