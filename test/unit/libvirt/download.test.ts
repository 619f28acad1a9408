import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { MESSAGE_STATUS } from '../../../lib/libvirt/message.ts';
import { eventually, type FakeCall, FakeDaemon, type Handlers } from './fake-daemon.ts';

const transfer = {
  vol: { pool: 'lab', name: 'a.raw', key: '/a.raw' },
  offset: 0n,
  length: 0n,
  flags: 0,
};

/** A daemon that sends these packets, an empty one, and confirms the client's end. */
const sending = (...packets: readonly Uint8Array[]): Handlers => ({
  storageVolDownload: (call, daemon) => {
    daemon.onPacket = ({ header }) => {
      if (header.status === MESSAGE_STATUS.ok) {
        daemon.packet(call, 'ok');
      }
    };
    daemon.reply('storageVolDownload', call, undefined);
    for (const data of packets) {
      daemon.packet(call, 'continue', data);
    }
    daemon.packet(call, 'continue');
  },
  connectGetHostname: (call, daemon) => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
});

async function openWith(
  handlers: Handlers,
): Promise<{ readonly connection: LibvirtConnection; readonly daemon: FakeDaemon }> {
  const daemon = new FakeDaemon(handlers);
  return { connection: await LibvirtConnection.open(daemon.client, { timeoutMs: 60_000 }), daemon };
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) {
    chunks.push(chunk);
  }
  return chunks;
}

const statuses = (daemon: FakeDaemon): number[] => daemon.packets.map(({ header }) => header.status);

describe('a download', () => {
  it('yields the daemon’s bytes in order and ends when the daemon confirmed', async () => {
    const { connection, daemon } = await openWith(sending(Buffer.from('ab'), Buffer.from('c')));

    const received = await collect(connection.download('storageVolDownload', transfer));

    expect(Buffer.concat(received).toString()).toBe('abc');
    expect(statuses(daemon)).toEqual([MESSAGE_STATUS.ok]);
  });

  it('takes a confirmation without the empty packet for the end too', async () => {
    const { connection } = await openWith({
      storageVolDownload: (call, daemon) => {
        daemon.reply('storageVolDownload', call, undefined);
        daemon.packet(call, 'continue', Buffer.from('abc'));
        daemon.packet(call, 'ok');
      },
    });

    const received = await collect(connection.download('storageVolDownload', transfer));

    expect(Buffer.concat(received).toString()).toBe('abc');
  });

  it('takes packets that overtake the reply, as a busy libvirtd sends them', async () => {
    const { connection } = await openWith({
      storageVolDownload: (call, daemon) => {
        daemon.onPacket = () => daemon.packet(call, 'ok');
        daemon.packet(call, 'continue', Buffer.from('ab'));
        daemon.packet(call, 'continue');
        daemon.reply('storageVolDownload', call, undefined);
      },
    });

    const received = await collect(connection.download('storageVolDownload', transfer));

    expect(Buffer.concat(received).toString()).toBe('ab');
  });

  it('sends nothing before it is asked for the first bytes', async () => {
    const { connection, daemon } = await openWith(sending());

    connection.download('storageVolDownload', transfer);
    await connection.call('connectGetHostname', undefined);

    expect(daemon.calls.map(({ procedure }) => procedure)).toEqual(['connectOpen', 'connectGetHostname']);
  });

  it('tells the daemon when the consumer leaves early, and the connection goes on', async () => {
    const { connection, daemon } = await openWith(sending(Buffer.from('ab'), Buffer.from('c')));

    for await (const _ of connection.download('storageVolDownload', transfer)) {
      break;
    }

    await eventually(() => daemon.packets.length > 0);
    expect(statuses(daemon)).toEqual([MESSAGE_STATUS.error]);
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });

  it('rejects with the daemon’s error in mid-stream', async () => {
    const { connection } = await openWith({
      storageVolDownload: (call, daemon) => {
        daemon.reply('storageVolDownload', call, undefined);
        daemon.failStream(call, { code: 38, message: 'Input/output error', int1: 5 });
      },
    });

    const downloading = collect(connection.download('storageVolDownload', transfer));

    await expect(downloading).rejects.toMatchObject({ name: 'LibvirtError', code: 38, int1: 5 });
  });

  it('rejects when the daemon goes silent, and tells it', async () => {
    const { connection, daemon } = await openWith({
      storageVolDownload: (call, fake) => fake.reply('storageVolDownload', call, undefined),
    });

    const downloading = collect(connection.download('storageVolDownload', transfer, { timeoutMs: 20 }));

    await expect(downloading).rejects.toMatchObject({ name: 'LibvirtTimeoutError' });
    await eventually(() => daemon.packets.length > 0);
    expect(statuses(daemon)).toEqual([MESSAGE_STATUS.error]);
  });

  it('is given up with the reason of its signal', async () => {
    const { connection, daemon } = await openWith({
      storageVolDownload: (call, fake) => fake.reply('storageVolDownload', call, undefined),
    });
    const abort = new AbortController();
    const reason = new Error('no longer wanted');
    const downloading = collect(
      connection.download('storageVolDownload', transfer, { signal: abort.signal }),
    );
    await daemon.called('storageVolDownload');

    abort.abort(reason);

    await expect(downloading).rejects.toBe(reason);
  });

  it('ends the connection for data after the end of data', async () => {
    const { connection } = await openWith({
      storageVolDownload: (call, daemon) => {
        daemon.reply('storageVolDownload', call, undefined);
        daemon.packet(call, 'continue');
        daemon.packet(call, 'continue', Buffer.from('more'));
      },
    });

    const downloading = collect(connection.download('storageVolDownload', transfer));

    await expect(downloading).rejects.toMatchObject({ name: 'LibvirtTransportError' });
  });
});

describe('a download whose consumer is slow', () => {
  const PACKET = Buffer.alloc(262_120);

  /** Sends packet after packet for as long as the client reads. */
  async function flood(daemon: FakeDaemon, call: FakeCall): Promise<number> {
    let sent = 0;
    for (let turn = 0; turn < 300; turn += 1) {
      if (!daemon.blocked) {
        daemon.packet(call, 'continue', PACKET);
        sent += 1;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    return sent;
  }

  const agreeing: Handlers = {
    ...sending(),
    storageVolDownload: (call, daemon) => daemon.reply('storageVolDownload', call, undefined),
  };

  it('stops reading after a few packets, and reads on when they are consumed', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const chunks = connection.download('storageVolDownload', transfer);
    const first = chunks.next();
    const call = await daemon.called('storageVolDownload');

    const sent = await flood(daemon, call);
    await first;
    let received = 1;
    daemon.packet(call, 'continue');
    daemon.onPacket = () => daemon.packet(call, 'ok');
    for await (const _ of chunks) {
      received += 1;
    }

    expect(sent).toBeLessThan(20);
    expect(received).toBe(sent);
  });

  it('still hears the answer to a call', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const chunks = connection.download('storageVolDownload', transfer);
    const first = chunks.next();
    await flood(daemon, await daemon.called('storageVolDownload'));
    await first;

    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
    await connection.close();
  });

  it('leaves room for an upload', async () => {
    const { connection, daemon } = await openWith({
      ...agreeing,
      storageVolUpload: (call, fake) => {
        fake.onPacket = ({ header }) => {
          if (header.status === MESSAGE_STATUS.ok) fake.packet(call, 'ok');
        };
        fake.reply('storageVolUpload', call, undefined);
      },
    });
    const chunks = connection.download('storageVolDownload', transfer);
    const first = chunks.next();
    await flood(daemon, await daemon.called('storageVolDownload'));
    await first;

    await connection.upload('storageVolUpload', transfer, Readable.from([Buffer.from('abc')]));

    expect(daemon.data.toString()).toBe('abc');
    await connection.close();
  });
});
