/** What the daemon does with frames that no well-behaved client sends; asked of libvirtd 9.0 first. */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import {
  encodeFrame,
  type Frame,
  FrameDecoder,
  type MessageHeader,
} from '../../../../lib/libvirt/framing.ts';
import { LibvirtAuthError, LibvirtConnection, LibvirtTransportError } from '../../../../lib/libvirt/index.ts';
import { encodeCall, KEEPALIVE_PROGRAM } from '../../../../lib/libvirt/message.ts';
import { PROGRAM } from '../../../../lib/libvirt/protocol.ts';
import { decodeRemoteError } from '../../../../lib/libvirt/remote-error.ts';
import { rawVolumeXml } from './daemon-client.ts';

const LOOKUP = 23;

/** A client that says anything. */
class RawClient {
  readonly stream: Duplex;
  readonly frames: Frame[] = [];

  constructor(stream: Duplex) {
    this.stream = stream;
    const decoder = new FrameDecoder();
    stream.on('data', (chunk: Buffer) => decoder.push(chunk, (frame) => this.frames.push(frame)));
    stream.on('error', () => undefined);
  }

  send(header: Partial<MessageHeader>, payload: Uint8Array = new Uint8Array(0)): void {
    const full = {
      program: PROGRAM.remote,
      version: 1,
      procedure: 0,
      type: 0,
      serial: 0,
      status: 0,
      ...header,
    };
    this.stream.write(encodeFrame(full, payload));
  }

  open(serial = 0): void {
    this.stream.write(encodeCall('connectOpen', serial, { name: 'qemu:///system', flags: 0 }));
  }

  async received(count: number): Promise<Frame[]> {
    while (this.frames.length < count) {
      await once(this.stream, 'data');
    }
    return this.frames;
  }

  /** What the call of this serial was refused with: code and error domain. */
  async refusal(serial: number): Promise<[number, number]> {
    const answer = (): Frame | undefined => this.frames.find(({ header }) => header.serial === serial);
    while (answer() === undefined) {
      await once(this.stream, 'data');
    }
    const frame = answer();
    expect(frame?.header.status).toBe(1);
    const { code, domain } = decodeRemoteError(frame?.payload ?? new Uint8Array(0), 'connectOpen');
    return [code, domain];
  }
}

describe('the embedded daemon on a raw connection', () => {
  let daemon: EmbeddedLibvirt;
  let client: RawClient;

  beforeEach(() => {
    daemon = createEmbeddedLibvirt({ name: 'host' });
    client = new RawClient(daemon.connect());
  });

  afterEach(() => daemon.close());

  it('refuses calls before the connection is open, and goes on', async () => {
    client.stream.write(encodeCall('domainLookupByName', 0, { name: 'x' }));
    expect(await client.refusal(0)).toEqual([1, 7]);

    client.open(1);
    client.stream.write(encodeCall('domainLookupByName', 2, { name: 'x' }));

    expect(await client.refusal(2)).toEqual([42, 10]);
    expect((await client.received(3)).map(({ header }) => header.status).sort()).toEqual([0, 1, 1]);
  });

  it('breaks the session at a second open, as libvirt does', async () => {
    client.open();
    client.open(1);
    expect(await client.refusal(1)).toEqual([1, 7]);

    client.stream.write(encodeCall('domainLookupByName', 2, { name: 'x' }));

    expect(await client.refusal(2)).toEqual([1, 7]);
  });

  it('opens the QEMU driver only', async () => {
    client.stream.write(encodeCall('connectOpen', 0, { name: 'foo:///system', flags: 0 }));

    expect(await client.refusal(0)).toEqual([5, 0]);
  });

  it.each<[string, Partial<MessageHeader>, Uint8Array]>([
    ['an unknown procedure', { procedure: 9999 }, new Uint8Array(0)],
    ['another version', { version: 2, procedure: LOOKUP }, new Uint8Array(0)],
    ['another program', { program: 0x2000_1234, procedure: LOOKUP }, new Uint8Array(0)],
    ['a string longer than its frame', { procedure: LOOKUP }, Uint8Array.of(0, 0, 0, 100)],
    ['a status in a call', { procedure: LOOKUP, status: 1 }, Uint8Array.of(0, 0, 0, 0)],
  ])('refuses %s with 39 and stays usable', async (_what, header, payload) => {
    client.open();
    client.send({ ...header, serial: 7 }, payload);
    client.stream.write(encodeCall('domainLookupByName', 8, { name: 'x' }));

    expect(await client.refusal(7)).toEqual([39, 7]);
    expect(await client.refusal(8)).toEqual([42, 10]);
  });

  it('LV-18: answers a keepalive ping with a pong', async () => {
    client.send({ program: KEEPALIVE_PROGRAM, procedure: 1, type: 2 });

    expect((await client.received(1))[0]?.header).toMatchObject({
      program: KEEPALIVE_PROGRAM,
      procedure: 2,
      type: 2,
    });
  });

  it.each([
    ['too short', 27],
    ['too long', 0x7fff_ffff],
  ])('hangs up on a length that is %s', async (_what, length) => {
    const word = Buffer.alloc(28);
    word.writeUInt32BE(length);
    client.stream.write(word);

    await once(client.stream, 'close');
    expect(client.frames).toEqual([]);
  });

  it('drops packets of a stream that is not open without a word', async () => {
    client.open();
    client.send({ procedure: 208, type: 3, serial: 99, status: 2 }, new Uint8Array(5));
    client.send({ procedure: 208, type: 3, serial: 98, status: 0 });
    client.stream.write(encodeCall('domainLookupByName', 8, { name: 'x' }));

    expect(await client.refusal(8)).toEqual([42, 10]);
    expect(client.frames).toHaveLength(2);
  });

  it('confirms the abort of an upload, of which the bytes so far stay', async () => {
    client.open();
    const { pool } = await poolOf(daemon);
    client.stream.write(encodeCall('storageVolCreateXml', 1, { pool, xml: rawVolumeXml('a', 0), flags: 0 }));
    const vol = { pool: 'default', name: 'a', key: '' };
    await client.received(2);
    client.stream.write(encodeCall('storageVolUpload', 2, { vol, offset: 0n, length: 0n, flags: 0 }));
    client.send({ procedure: 208, type: 3, serial: 2, status: 2 }, new Uint8Array(5));
    client.send({ procedure: 208, type: 3, serial: 2, status: 1 });

    const frames = await client.received(4);

    expect(frames[3]?.header).toMatchObject({ procedure: 208, type: 3, serial: 2, status: 0 });
    expect(daemon.state.files.get('/var/lib/libvirt/images/a')?.bytes.sizeBytes).toBe(5);
  });

  it('serves five calls of one client at a time and does not read a sixth', async () => {
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    let waiting = 0;
    const full = new Promise<void>((resolve) => {
      daemon.faults.at(
        'domainLookupByName',
        {
          kind: 'hook',
          hook: () => {
            waiting += 1;
            if (waiting === 5) resolve();
            return gate;
          },
        },
        'every',
      );
    });
    client.open();
    for (let serial = 1; serial <= 7; serial++) {
      client.stream.write(encodeCall('domainLookupByName', serial, { name: 'x' }));
    }

    await full;
    expect(daemon.faults.calls).toBe(6);
    release();

    await client.received(8);
    expect(daemon.faults.calls).toBe(8);
  });

  it('answers the close of a connection and then hangs up', async () => {
    client.open();
    client.stream.write(encodeCall('connectClose', 1, undefined));

    await once(client.stream, 'end');

    expect(client.frames.map((frame) => frame.header.status)).toEqual([0, 0]);
  });

  it('loses every connection at a restart, and no state', async () => {
    client.open();
    await client.received(1);
    daemon.state.domains.define(
      "<domain type='kvm'><name>a</name><memory>1024</memory><os><type>hvm</type></os></domain>",
    );

    daemon.restart();

    await once(client.stream, 'close');
    expect(daemon.state.domains.find('a')?.name).toBe('a');
    const again = await LibvirtConnection.open(daemon.connect());
    expect((await again.call('domainLookupByName', { name: 'a' })).dom.name).toBe('a');
  });

  it('refuses connections while nobody listens', async () => {
    daemon.isListening = false;

    await expect(LibvirtConnection.open(daemon.connect())).rejects.toThrow(LibvirtTransportError);
  });

  it('LV-16: counts the sessions that are open', async () => {
    const connections = await Promise.all([1, 2, 3].map(() => LibvirtConnection.open(daemon.connect())));
    expect(daemon.sessions).toBe(4);

    await Promise.all(connections.map((connection) => connection.close()));
    client.stream.destroy();
    await expect.poll(() => daemon.sessions).toBe(0);
  });
});

describe('authentication', () => {
  const connect = (auth: 'polkit' | 'polkit-denied' | 'sasl') => {
    const daemon = createEmbeddedLibvirt({ name: 'host', auth });
    return { daemon, opening: LibvirtConnection.open(daemon.connect()) };
  };

  it('LV-17: by polkit lets a client in that asks for it', async () => {
    const { daemon, opening } = connect('polkit');

    expect(await (await opening).call('connectGetHostname', undefined)).toEqual({ hostname: 'host' });
    expect(daemon.faults.procedures).toContain('authPolkit');
  });

  it.each(['polkit-denied', 'sasl'] as const)('LV-17: %s lets nobody in', async (auth) => {
    await expect(connect(auth).opening).rejects.toThrow(LibvirtAuthError);
  });
});

async function poolOf(daemon: EmbeddedLibvirt) {
  const connection = await LibvirtConnection.open(daemon.connect());
  try {
    return await connection.call('storagePoolLookupByName', { name: 'default' });
  } finally {
    await connection.close();
  }
}
