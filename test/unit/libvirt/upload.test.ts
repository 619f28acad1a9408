import { createHash } from 'node:crypto';
import { Duplex, PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type CallOptions, LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { FrameDecoder, STREAM_PAYLOAD_MAX_BYTES } from '../../../lib/libvirt/framing.ts';
import {
  encodeKeepalive,
  encodeReply,
  encodeStreamPacket,
  isKeepalive,
  MESSAGE_STATUS,
  MESSAGE_TYPE,
} from '../../../lib/libvirt/message.ts';
import { eventually, type FakeCall, FakeDaemon, type Handlers } from './fake-daemon.ts';

const transfer = {
  vol: { pool: 'lab', name: 'a.raw', key: '/a.raw' },
  offset: 0n,
  length: 0n,
  flags: 0,
};

/** Agrees to an upload and confirms its end. */
const accepting: Handlers = {
  storageVolUpload: (call, daemon) => {
    daemon.onPacket = ({ header }) => {
      if (header.status === MESSAGE_STATUS.ok) {
        daemon.packet(call, 'ok');
      }
    };
    daemon.reply('storageVolUpload', call, undefined);
  },
  connectGetHostname: (call, daemon) => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
};

/** Agrees to an upload and leaves the rest to the test. */
const agreeing: Handlers = {
  ...accepting,
  storageVolUpload: (call, daemon) => daemon.reply('storageVolUpload', call, undefined),
};

async function openWith(
  handlers: Handlers,
): Promise<{ readonly connection: LibvirtConnection; readonly daemon: FakeDaemon }> {
  const daemon = new FakeDaemon(handlers);
  return { connection: await LibvirtConnection.open(daemon.client, { timeoutMs: 60_000 }), daemon };
}

const upload = (
  connection: LibvirtConnection,
  source: AsyncIterable<Uint8Array>,
  options?: CallOptions,
): Promise<void> => connection.upload('storageVolUpload', transfer, source, options);

async function* chunksOf(sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let next = 0;
  for (const size of sizes) {
    yield Buffer.from(Array.from({ length: size }, () => (next++ * 31) % 251));
  }
}

/** An endless source is cut here, far above what a test may take: a sender that never stops would fill the memory. */
const ENDLESS_CHUNKS = 500;

/** Counts what was taken from an endless source of 64 KiB chunks, and whether it was ended. */
function endlessSource(): {
  readonly taken: () => number;
  readonly ended: () => boolean;
} & AsyncIterable<Uint8Array> {
  let taken = 0;
  let ended = false;
  return {
    taken: () => taken,
    ended: () => ended,
    async *[Symbol.asyncIterator]() {
      try {
        while (taken < ENDLESS_CHUNKS) {
          taken += 1;
          yield Buffer.alloc(65_536);
        }
        throw new Error('the source was read without end');
      } finally {
        ended = true;
      }
    },
  };
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) {
    chunks.push(chunk);
  }
  return chunks;
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe('an upload', () => {
  it('LV-01: delivers every byte whatever the chunks, in packets libvirt itself would send', async () => {
    const { connection, daemon } = await openWith(accepting);
    const sizes = [1, 0, 7, 65_536, 4_096, 3, 0, 230_358];
    const source = await collect(chunksOf(sizes));

    await upload(connection, chunksOf(sizes));

    expect(daemon.data.length).toBe(300_001);
    expect(sha256(daemon.data)).toBe(sha256(Buffer.concat(source)));
    const call = await daemon.called('storageVolUpload');
    expect(daemon.packets.every(({ header }) => header.serial === call.serial)).toBe(true);
    const lengths = daemon.packets.map(({ payload }) => payload.length);
    expect(lengths).toEqual([STREAM_PAYLOAD_MAX_BYTES, 300_001 - STREAM_PAYLOAD_MAX_BYTES, 0]);
    expect(daemon.packets.at(-1)?.header.status).toBe(MESSAGE_STATUS.ok);
  });

  it.each([0, 1, STREAM_PAYLOAD_MAX_BYTES, STREAM_PAYLOAD_MAX_BYTES + 1, 1_048_576])(
    'LV-01: sends no empty packet but the last for a source of %i bytes in one chunk',
    async (size) => {
      const { connection, daemon } = await openWith(accepting);

      await upload(connection, chunksOf([size]));

      expect(daemon.data.length).toBe(size);
      const empty = daemon.packets.filter(({ payload }) => payload.length === 0);
      expect(empty.map(({ header }) => header.status)).toEqual([MESSAGE_STATUS.ok]);
    },
  );

  it('LV-01: succeeds only after the daemon confirmed', async () => {
    const { connection, daemon } = await openWith(agreeing);
    let settled = false;
    const uploading = upload(connection, chunksOf([10])).then(() => {
      settled = true;
    });
    await eventually(() => daemon.packets.at(-1)?.header.status === MESSAGE_STATUS.ok);
    await connection.call('connectGetHostname', undefined);
    expect(settled).toBe(false);

    daemon.packet(await daemon.called('storageVolUpload'), 'ok');
    await uploading;

    expect(settled).toBe(true);
  });

  it('LV-03: stops within one chunk when the daemon reports an error in mid-stream', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const source = endlessSource();
    let takenAtError = Number.NaN;
    daemon.onPacket = ({ header }) => {
      if (daemon.packets.length === 2 && header.status === MESSAGE_STATUS.continue) {
        takenAtError = source.taken();
        daemon.failStream(daemon.calls.at(-1) as FakeCall, {
          code: 38,
          int1: 28,
          message: 'No space left on device',
        });
      }
    };

    await expect(upload(connection, source)).rejects.toMatchObject({
      name: 'LibvirtError',
      code: 38,
      int1: 28,
      procedure: 'storageVolUpload',
    });

    await eventually(source.ended);
    // The chunks of the packet that was under way when the error came in.
    expect(source.taken() - takenAtError).toBeLessThanOrEqual(5);
    expect(daemon.packets.some(({ header }) => header.status === MESSAGE_STATUS.ok)).toBe(false);
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });

  it.each([1_000, STREAM_PAYLOAD_MAX_BYTES, 1_048_576])(
    'LV-03: takes no chunk after the error from a source of chunks of %i bytes',
    async (size) => {
      const { connection, daemon } = await openWith(agreeing);
      let taken = 0;
      const source = async function* () {
        while (taken < ENDLESS_CHUNKS) {
          taken += 1;
          yield Buffer.alloc(size);
          // The daemon's answer to what was sent has come by the next chunk.
          for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        }
      };
      let takenAtError = Number.NaN;
      daemon.onPacket = ({ header }) => {
        if (header.status !== MESSAGE_STATUS.continue || !Number.isNaN(takenAtError)) return;
        takenAtError = taken;
        daemon.failStream(daemon.calls.at(-1) as FakeCall, { code: 38, message: 'Input/output error' });
      };

      await expect(upload(connection, source())).rejects.toMatchObject({ code: 38 });
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));

      // One at most was asked for already.
      expect(taken - takenAtError).toBeLessThanOrEqual(1);
    },
  );

  it('LV-03: does not wait for the next chunk of a source that hangs to hear the error', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const source = new PassThrough();
    source.write('some bytes');
    const uploading = upload(connection, source);
    const call = await daemon.called('storageVolUpload');

    daemon.failStream(call, { code: 38, message: 'Input/output error' });

    await expect(uploading).rejects.toMatchObject({ code: 38 });
    expect(source.destroyed).toBe(true);
  });

  it('LV-03: reports the error that comes instead of the confirmation', async () => {
    const { connection, daemon } = await openWith(agreeing);
    daemon.onPacket = ({ header }) => {
      if (header.status === MESSAGE_STATUS.ok) {
        daemon.failStream(daemon.calls.at(-1) as FakeCall, { code: 38, message: 'cannot close' });
      }
    };

    await expect(upload(connection, chunksOf([10]))).rejects.toMatchObject({ code: 38 });
  });

  it('LV-03: tolerates an empty packet from the daemon before its confirmation', async () => {
    const { connection, daemon } = await openWith(agreeing);
    daemon.onPacket = ({ header }) => {
      if (header.status === MESSAGE_STATUS.ok) {
        const call = daemon.calls.at(-1) as FakeCall;
        daemon.packet(call, 'continue');
        daemon.packet(call, 'ok');
      }
    };

    await expect(upload(connection, chunksOf([10]))).resolves.toBeUndefined();
  });

  it.each<[string, string, CallOptions]>([
    ['when no time is left', 'LibvirtTimeoutError', { timeoutMs: 0 }],
    ['when its signal is aborted already', 'AbortError', { signal: AbortSignal.abort() }],
  ])('sends nothing and ends the source %s', async (_, name, options) => {
    const { connection, daemon } = await openWith(accepting);
    const source = new PassThrough();

    await expect(upload(connection, source, options)).rejects.toMatchObject({ name });
    await connection.call('connectGetHostname', undefined);

    expect(daemon.calls.map(({ procedure }) => procedure)).toEqual(['connectOpen', 'connectGetHostname']);
    expect(source.destroyed).toBe(true);
  });

  it('rejects at once on a connection that is over, and ends the source', async () => {
    const { connection } = await openWith(accepting);
    const source = new PassThrough();
    await connection.close();

    await expect(upload(connection, source)).rejects.toMatchObject({ name: 'LibvirtTransportError' });

    expect(source.destroyed).toBe(true);
  });

  it('ends the source it never began when the daemon refuses the call', async () => {
    const { connection } = await openWith({
      storageVolUpload: (call, daemon) => daemon.refuse(call, { code: 50, message: 'no storage vol' }),
    });
    const source = new PassThrough();

    await expect(upload(connection, source)).rejects.toMatchObject({ code: 50 });

    expect(source.destroyed).toBe(true);
  });

  it('tells the daemon and passes the error on when the source breaks', async () => {
    const { connection, daemon } = await openWith(accepting);
    const broken = new Error('the download was cut');

    const uploading = upload(
      connection,
      (async function* () {
        yield Buffer.from('begin');
        throw broken;
      })(),
    );

    await expect(uploading).rejects.toBe(broken);
    await eventually(() => daemon.packets.length > 0);
    expect(daemon.packets.map(({ header }) => header.status)).toEqual([MESSAGE_STATUS.error]);
  });

  it('passes the error on also of a source that cannot be ended', async () => {
    const { connection } = await openWith(accepting);
    const broken = new Error('the download was cut');
    const source = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(broken) }) };

    await expect(upload(connection, source)).rejects.toBe(broken);
  });

  it('tells the daemon when its signal aborts, and drops what the daemon still says', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const abort = new AbortController();
    const reason = new Error('the invocation ends');
    const source = endlessSource();
    daemon.onPacket = () => abort.abort(reason);

    await expect(upload(connection, source, { signal: abort.signal })).rejects.toBe(reason);

    const call = await daemon.called('storageVolUpload');
    await eventually(() => daemon.packets.at(-1)?.header.status === MESSAGE_STATUS.error);
    daemon.packet(call, 'ok');
    daemon.failStream(call, { code: 39, message: 'stream aborted at client request' });
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
    await eventually(source.ended);
  });

  it('does not wait for a source that aborts the signal and then hangs', async () => {
    const { connection } = await openWith(agreeing);
    const abort = new AbortController();
    const reason = new Error('the invocation ends');
    const source = async function* () {
      yield Buffer.from('begin');
      abort.abort(reason);
      await new Promise(() => undefined);
    };

    await expect(upload(connection, source(), { signal: abort.signal })).rejects.toBe(reason);
  });

  it('aborts a stream that the daemon agrees to after it was given up', async () => {
    const { connection, daemon } = await openWith({ ...accepting, storageVolUpload: () => undefined });

    const uploading = upload(connection, chunksOf([10]), { timeoutMs: 20 });

    await expect(uploading).rejects.toMatchObject({ name: 'LibvirtTimeoutError' });
    await connection.call('connectGetHostname', undefined);
    expect(daemon.packets).toEqual([]);
    daemon.reply('storageVolUpload', await daemon.called('storageVolUpload'), undefined);
    await eventually(() => daemon.packets.length === 1);
    expect(daemon.packets[0]?.header.status).toBe(MESSAGE_STATUS.error);
  });

  it('gives up when the confirmation does not come, and tells the daemon', async () => {
    const { connection, daemon } = await openWith(agreeing);

    const uploading = upload(connection, chunksOf([10]), { timeoutMs: 20 });

    await expect(uploading).rejects.toMatchObject({
      name: 'LibvirtTimeoutError',
      message: 'no answer to storageVolUpload within 20 ms',
      procedure: 'storageVolUpload',
    });
    await eventually(() => daemon.packets.at(-1)?.header.status === MESSAGE_STATUS.error);
  });

  it('may take longer than its deadline as long as something moves', async () => {
    const { connection, daemon } = await openWith(accepting);
    const slow = async function* () {
      for (let i = 0; i < 4; i += 1) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        yield Buffer.alloc(STREAM_PAYLOAD_MAX_BYTES);
      }
    };

    await upload(connection, slow(), { timeoutMs: 50 });

    expect(daemon.data.length).toBe(4 * STREAM_PAYLOAD_MAX_BYTES);
  });

  it('LV-18: answers keepalives while it sends', async () => {
    const { connection, daemon } = await openWith(accepting);
    const pinging = async function* () {
      for (let i = 0; i < 3; i += 1) {
        daemon.write(encodeKeepalive('ping'));
        yield Buffer.alloc(STREAM_PAYLOAD_MAX_BYTES);
      }
    };

    await upload(connection, pinging());

    await eventually(() => daemon.others.length === 3);
    expect(daemon.others.every((frame) => isKeepalive(frame, 'pong'))).toBe(true);
  });

  it('leaves room for calls on the same connection', async () => {
    const { connection } = await openWith(accepting);
    const asking = async function* () {
      for (let i = 0; i < 3; i += 1) {
        expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
        yield Buffer.alloc(100_000);
      }
    };

    await expect(upload(connection, asking())).resolves.toBeUndefined();
  });

  it('rejects when the connection ends, and ends the source', async () => {
    const { connection, daemon } = await openWith(agreeing);
    const source = endlessSource();
    daemon.onPacket = () => daemon.end();

    await expect(upload(connection, source)).rejects.toMatchObject({ name: 'LibvirtTransportError' });

    await eventually(source.ended);
  });

  it.each([
    [
      'a confirmation before the end',
      MESSAGE_STATUS.ok,
      0,
      'storageVolUpload was confirmed before its data ended',
    ],
    [
      'data from the daemon',
      MESSAGE_STATUS.continue,
      4,
      'data from the daemon in storageVolUpload where none can be',
    ],
  ])('ends the connection for %s', async (_, status, bytes, message) => {
    const { connection, daemon } = await openWith(agreeing);
    const uploading = upload(connection, endlessSource());
    const call = await daemon.called('storageVolUpload');

    daemon.write(encodeStreamPacket('storageVolUpload', call.serial, status, Buffer.alloc(bytes)));

    await expect(uploading).rejects.toMatchObject({ name: 'LibvirtTransportError', message });
    expect(connection.closed).toBe(true);
  });

  it('ends the connection for a packet before the reply and for a second reply', async () => {
    for (const [second, message] of [
      [MESSAGE_TYPE.stream, 'a packet of storageVolUpload before its reply'],
      [MESSAGE_TYPE.reply, 'a second reply to storageVolUpload'],
    ] as const) {
      const { connection, daemon } = await openWith({});
      const uploading = upload(connection, endlessSource());
      const call = await daemon.called('storageVolUpload');

      if (second === MESSAGE_TYPE.reply) {
        daemon.reply('storageVolUpload', call, undefined);
        daemon.reply('storageVolUpload', call, undefined);
      } else {
        daemon.packet(call, 'continue');
      }

      await expect(uploading).rejects.toMatchObject({ name: 'LibvirtTransportError', message });
    }
  });
});

describe('an upload to a peer that does not read', () => {
  /** Answers everything but takes no stream packet until `release`. */
  function stalledStream(): {
    readonly stream: Duplex;
    readonly release: () => void;
    readonly bytes: () => number;
  } {
    const held: (() => void)[] = [];
    let bytes = 0;
    let stalled = true;
    const decoder = new FrameDecoder();
    const stream: Duplex = new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        decoder.push(Uint8Array.from(chunk), ({ header, payload }) => {
          if (header.type === MESSAGE_TYPE.call) {
            stream.push(
              encodeReply(
                header.procedure === 1 ? 'connectOpen' : 'storageVolUpload',
                header.serial,
                undefined,
              ),
            );
          } else if (header.status === MESSAGE_STATUS.ok) {
            stream.push(encodeStreamPacket('storageVolUpload', header.serial, MESSAGE_STATUS.ok));
          } else {
            bytes += payload.length;
          }
        });
        if (stalled && bytes > 0) {
          held.push(done);
        } else {
          done();
        }
      },
    });
    return {
      stream,
      bytes: () => bytes,
      release: () => {
        stalled = false;
        for (const done of held.splice(0)) {
          done();
        }
      },
    };
  }

  it('holds a few chunks and no more, and goes on when the peer does', async () => {
    const { stream, release, bytes } = stalledStream();
    const connection = await LibvirtConnection.open(stream, { timeoutMs: 60_000 });
    let taken = 0;
    const source = async function* () {
      for (let i = 0; i < 160; i += 1) {
        taken += 1;
        yield Buffer.alloc(65_536);
      }
    };
    const uploading = upload(connection, source());
    await eventually(() => bytes() > 0);
    // Many turns of the event loop, in each of which an unbounded sender would take more.
    for (let turn = 0; turn < 500; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
    }

    expect(taken * 65_536).toBeLessThanOrEqual(3 * STREAM_PAYLOAD_MAX_BYTES);
    release();
    await uploading;

    expect(bytes()).toBe(160 * 65_536);
  });

  it('gives up when nothing moved for the deadline', async () => {
    const { stream } = stalledStream();
    const connection = await LibvirtConnection.open(stream, { timeoutMs: 60_000 });

    const uploading = upload(connection, endlessSource(), { timeoutMs: 30 });

    await expect(uploading).rejects.toMatchObject({ name: 'LibvirtTimeoutError' });
  });
});
