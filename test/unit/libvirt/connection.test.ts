import { describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import {
  ERROR_CODE,
  LibvirtError,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from '../../../lib/libvirt/errors.ts';
import { encodeFrame } from '../../../lib/libvirt/framing.ts';
import { encodeKeepalive, encodeReply, isKeepalive, MESSAGE_TYPE } from '../../../lib/libvirt/message.ts';
import { PROGRAM, procedures } from '../../../lib/libvirt/protocol.ts';
import { eventually, FakeDaemon, type Handlers } from './fake-daemon.ts';

const dom = { name: 'vm1', uuid: new Uint8Array(16).fill(7), id: -1 };
const SILENT = { timeoutMs: 60_000 };

async function openWith(
  handlers: Handlers = {},
): Promise<{ readonly connection: LibvirtConnection; readonly daemon: FakeDaemon }> {
  const daemon = new FakeDaemon(handlers);
  const connection = await LibvirtConnection.open(daemon.client, SILENT);
  return { connection, daemon };
}

/** The rejection of a promise that must reject. */
const failure = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    (value) => {
      throw new Error(`resolved with ${JSON.stringify(value)}`);
    },
    (reason: unknown) => reason,
  );

/** One header word of a good reply to domainLookupByName replaced. */
function spoiltReply(serial: number, wrong: Partial<Record<string, number>>): Uint8Array {
  const header = {
    program: PROGRAM.remote,
    version: 1,
    procedure: procedures.domainLookupByName.number,
    type: MESSAGE_TYPE.reply,
    serial,
    status: 0,
  };
  return encodeFrame({ ...header, ...wrong }, procedures.domainLookupByName.result.encode({ dom }));
}

describe('a call', () => {
  it('returns what the daemon answered, 64-bit numbers as bigint', async () => {
    const { connection } = await openWith({
      nodeGetFreeMemory: (call, daemon) =>
        daemon.reply('nodeGetFreeMemory', call, { freeMem: 2n ** 63n + 1n }),
    });

    expect(await connection.call('nodeGetFreeMemory', undefined)).toEqual({ freeMem: 2n ** 63n + 1n });
  });

  it('is matched by serial when answers come in another order', async () => {
    const { connection, daemon } = await openWith();
    const first = connection.call('domainLookupByName', { name: 'first' });
    const second = connection.call('domainLookupByName', { name: 'second' });
    await eventually(() => daemon.calls.length === 3);

    for (const call of daemon.calls.slice(1).reverse()) {
      const { name } = call.args as { readonly name: string };
      daemon.reply('domainLookupByName', call, { dom: { ...dom, name } });
    }

    expect((await first).dom.name).toBe('first');
    expect((await second).dom.name).toBe('second');
  });

  it('keeps going after the daemon refused one', async () => {
    const { connection } = await openWith({
      domainLookupByName: (call, daemon) =>
        daemon.refuse(call, { code: ERROR_CODE.noDomain, message: 'no domain', int1: 5 }),
      connectGetHostname: (call, daemon) => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
    });

    const refusal = await failure(connection.call('domainLookupByName', { name: 'vm1' }));

    expect(refusal).toBeInstanceOf(LibvirtError);
    expect(refusal).toMatchObject({
      code: 42,
      domain: 10,
      level: 2,
      int1: 5,
      message: 'no domain',
      procedure: 'domainLookupByName',
    });
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });

  it('LV-04: rejects at once when the connection ends, and so does every later call', async () => {
    const { connection, daemon } = await openWith();
    const waiting = [
      failure(connection.call('domainGetInfo', { dom })),
      failure(connection.call('domainGetState', { dom, flags: 0 })),
    ];
    await daemon.called('domainGetState');

    daemon.end();

    for (const reason of await Promise.all(waiting)) {
      expect(reason).toBeInstanceOf(LibvirtTransportError);
    }
    expect(connection.closed).toBe(true);
    expect(await failure(connection.call('connectGetHostname', undefined))).toBeInstanceOf(
      LibvirtTransportError,
    );
    await connection.close();
    await connection.close();
  });

  it('LV-04: names what broke the stream as the cause', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('domainGetInfo', { dom }));
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });

    daemon.client.destroy(reset);

    expect(await waiting).toMatchObject({ name: 'LibvirtTransportError', cause: reset });
  });

  it('LV-05: rejects when its deadline passes, and drops the answer that comes later', async () => {
    const { connection, daemon } = await openWith({
      domainGetState: (call, fake) => fake.reply('domainGetState', call, { state: 1, reason: 1 }),
    });

    const late = await failure(
      connection.call('domainInterfaceAddresses', { dom, source: 1, flags: 0 }, { timeoutMs: 20 }),
    );
    const stuck = await daemon.called('domainInterfaceAddresses');
    daemon.reply('domainInterfaceAddresses', stuck, { ifaces: [] });

    expect(late).toBeInstanceOf(LibvirtTimeoutError);
    expect(late).toMatchObject({ procedure: 'domainInterfaceAddresses', timeoutMs: 20 });
    expect(await connection.call('domainGetState', { dom, flags: 0 })).toEqual({ state: 1, reason: 1 });
  });

  it('LV-05: drops a late answer even when it cannot be decoded', async () => {
    const { connection, daemon } = await openWith({
      connectGetHostname: (call, fake) => fake.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
    });

    await failure(connection.call('domainGetState', { dom, flags: 0 }, { timeoutMs: 20 }));
    const { header } = await daemon.called('domainGetState');
    daemon.write(encodeFrame({ ...header, type: MESSAGE_TYPE.reply }, Uint8Array.of(1, 2, 3)));

    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });

  it('are given the connection’s own time, which is not that of its opening, when none is said', async () => {
    const silent = new FakeDaemon();
    const patient = await LibvirtConnection.open(silent.client, { ...SILENT, callTimeoutMs: 20 });

    const late = await failure(patient.call('connectGetHostname', undefined));

    expect(late).toMatchObject({ procedure: 'connectGetHostname', timeoutMs: 20 });
    await patient.close();
  });

  it('sends nothing when no time is left or the signal is aborted already', async () => {
    const { connection, daemon } = await openWith();
    const reason = new Error('the invocation ends');

    const expired = await failure(connection.call('connectGetHostname', undefined, { timeoutMs: 0 }));
    const aborted = await failure(
      connection.call('connectGetHostname', undefined, { signal: AbortSignal.abort(reason) }),
    );

    expect(expired).toBeInstanceOf(LibvirtTimeoutError);
    expect(aborted).toBe(reason);
    expect(daemon.calls.map(({ procedure }) => procedure)).toEqual(['connectOpen']);
  });

  it('rejects with the reason of its signal and leaves the others alone', async () => {
    const { connection, daemon } = await openWith();
    const abort = new AbortController();
    const reason = new Error('no longer wanted');
    const unwanted = failure(connection.call('domainGetInfo', { dom }, { signal: abort.signal }));
    const wanted = connection.call('connectGetHostname', undefined);
    const call = await daemon.called('connectGetHostname');

    abort.abort(reason);
    daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' });

    expect(await unwanted).toBe(reason);
    expect(await wanted).toEqual({ hostname: 'kvm-a' });
  });

  it('takes a deadline longer than a timer can be for no deadline', async () => {
    const { connection } = await openWith({
      connectGetHostname: (call, daemon) =>
        setTimeout(() => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }), 20),
    });

    const answer = connection.call('connectGetHostname', undefined, { timeoutMs: 2 ** 40 });

    expect(await answer).toEqual({ hostname: 'kvm-a' });
  });

  it('refuses arguments that cannot be sent and goes on', async () => {
    const { connection } = await openWith({
      connectGetHostname: (call, daemon) => daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
    });

    const refused = await failure(connection.call('domainLookupByName', { name: 'vm1\0.evil' }));

    expect(refused).toMatchObject({ name: 'XdrError' });
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });
});

describe('a daemon that is not believed', () => {
  it.each([
    ['another program', { program: 0x1234 }],
    ['another version', { version: 2 }],
    ['another procedure', { procedure: procedures.domainGetInfo.number }],
    ['a call instead of a reply', { type: MESSAGE_TYPE.call }],
    ['a type that does not exist', { type: 77 }],
    ['a reply with file descriptors', { type: MESSAGE_TYPE.replyWithFds }],
    ['a stream packet for a call', { type: MESSAGE_TYPE.stream }],
    ['a status that does not exist', { status: 9 }],
    ['a reply that continues', { status: 2 }],
    ['a serial that was never used', { serial: 999 }],
    ['serial 0', { serial: 0 }],
  ])('ends the connection for %s, and every waiter hears the cause', async (_, wrong) => {
    const { connection, daemon } = await openWith();
    const lookup = failure(connection.call('domainLookupByName', { name: 'vm1' }));
    const other = failure(connection.call('connectGetHostname', undefined));
    const { serial } = await daemon.called('domainLookupByName');

    daemon.write(spoiltReply(serial, wrong));

    const reason = await lookup;
    expect(reason).toBeInstanceOf(LibvirtTransportError);
    expect(await other).toBe(reason);
    expect(connection.closed).toBe(true);
  });

  it('ends the connection when a reply cannot be decoded, and the caller of that reply hears it', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('domainLookupByName', { name: 'vm1' }));
    const { header } = await daemon.called('domainLookupByName');

    daemon.write(encodeFrame({ ...header, type: MESSAGE_TYPE.reply }, Uint8Array.of(0, 0, 0, 9)));

    expect(await waiting).toMatchObject({
      name: 'LibvirtTransportError',
      cause: { name: 'XdrError' },
    });
  });

  it('ends the connection when an error cannot be decoded', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('domainLookupByName', { name: 'vm1' }));
    const { header } = await daemon.called('domainLookupByName');

    daemon.write(encodeFrame({ ...header, type: MESSAGE_TYPE.reply, status: 1 }, Uint8Array.of(0, 0)));

    expect(await waiting).toMatchObject({ name: 'LibvirtTransportError', cause: { name: 'XdrError' } });
  });

  it('ends the connection for bytes that are not RPC at all', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('connectGetHostname', undefined));

    daemon.write(Buffer.from('error: failed to connect to the hypervisor\n'));

    expect(await waiting).toMatchObject({
      name: 'LibvirtTransportError',
      message: expect.stringContaining('"erro"'),
    });
  });

  it('ends the connection in the middle of a message with that said', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('connectGetHostname', undefined));

    daemon.write(Uint8Array.of(0, 0, 0, 40, 1));
    daemon.end();

    expect(await waiting).toMatchObject({ message: expect.stringContaining('middle of a message') });
  });

  it('may answer twice: the second answer changes nothing', async () => {
    const { connection } = await openWith({
      connectGetHostname: (call, daemon) => {
        daemon.reply('connectGetHostname', call, { hostname: 'first' });
        daemon.reply('connectGetHostname', call, { hostname: 'second' });
      },
    });

    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'first' });
    expect(await connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'first' });
  });

  it('settles what it answered before it sent nonsense in the same chunk', async () => {
    const { connection, daemon } = await openWith();
    const answered = connection.call('connectGetHostname', undefined);
    const unanswered = failure(connection.call('connectGetVersion', undefined));
    const call = await daemon.called('connectGetHostname');

    daemon.write(
      Buffer.concat([
        encodeReply('connectGetHostname', call.serial, { hostname: 'kvm-a' }),
        Buffer.from('HTTP/1.1 400 Bad Request\r\n'),
      ]),
    );

    expect(await answered).toEqual({ hostname: 'kvm-a' });
    expect(await unanswered).toBeInstanceOf(LibvirtTransportError);
  });

  it('is not heard after the message that ended the connection', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('connectGetHostname', undefined));
    const { serial } = await daemon.called('connectGetHostname');

    daemon.write(
      Buffer.concat([
        encodeFrame({ program: 1, version: 1, procedure: 1, type: 1, serial, status: 0 }, new Uint8Array(0)),
        encodeReply('connectGetHostname', serial, { hostname: 'too late' }),
      ]),
    );

    expect(await waiting).toMatchObject({ message: expect.stringContaining('program 0x1') });
  });
});

describe('messages that are no answers', () => {
  it('LV-18: a keepalive ping is answered with a pong and is no reply', async () => {
    const { connection, daemon } = await openWith();
    const waiting = connection.call('connectGetHostname', undefined);
    const call = await daemon.called('connectGetHostname');

    daemon.write(encodeKeepalive('ping'));
    daemon.write(encodeKeepalive('pong'));
    daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' });

    expect(await waiting).toEqual({ hostname: 'kvm-a' });
    await eventually(() => daemon.others.length > 0);
    expect(daemon.others.map((frame) => isKeepalive(frame, 'pong'))).toEqual([true]);
  });

  it('LV-18: a ping is answered while nothing is asked, before the first call and after the last', async () => {
    const { connection, daemon } = await openWith({
      connectGetHostname: (call, fake) => fake.reply('connectGetHostname', call, { hostname: 'kvm-a' }),
    });

    daemon.write(encodeKeepalive('ping'));
    await eventually(() => daemon.others.length === 1);
    await connection.call('connectGetHostname', undefined);
    daemon.write(encodeKeepalive('ping'));
    await eventually(() => daemon.others.length === 2);

    expect(daemon.others.every((frame) => isKeepalive(frame, 'pong'))).toBe(true);
  });

  it('the end of the connection is heard while nothing is asked', async () => {
    const { connection, daemon } = await openWith();

    daemon.end();
    await eventually(() => connection.closed);

    expect(connection.closed).toBe(true);
  });

  it('an event is ignored, whatever its procedure and serial', async () => {
    const { connection, daemon } = await openWith();
    const waiting = connection.call('connectGetHostname', undefined);
    const call = await daemon.called('connectGetHostname');

    daemon.write(spoiltReply(call.serial, { type: MESSAGE_TYPE.message, procedure: 318 }));
    daemon.write(spoiltReply(0, { type: MESSAGE_TYPE.message, procedure: 107 }));
    daemon.reply('connectGetHostname', call, { hostname: 'kvm-a' });

    expect(await waiting).toEqual({ hostname: 'kvm-a' });
  });
});

describe('a procedure of the QEMU program', () => {
  const command = { dom, cmd: '{"execute":"guest-ping"}', timeout: 1, flags: 0 };

  it('is called in its own program and answered in that', async () => {
    const { connection, daemon } = await openWith({
      domainAgentCommand: (call, handler) =>
        handler.reply('domainAgentCommand', call, { result: '{"return":{}}' }),
    });

    expect(await connection.call('domainAgentCommand', command)).toEqual({ result: '{"return":{}}' });
    expect((await daemon.called('domainAgentCommand')).header).toMatchObject({
      program: PROGRAM.qemu,
      procedure: 3,
    });
  });

  it('is not answered by the same number of another program', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('domainAgentCommand', command));
    const { header } = await daemon.called('domainAgentCommand');

    daemon.write(
      encodeFrame(
        { ...header, program: PROGRAM.remote, type: MESSAGE_TYPE.reply },
        procedures.domainAgentCommand.result.encode({ result: null }),
      ),
    );

    expect(await waiting).toBeInstanceOf(LibvirtTransportError);
  });
});

describe('close', () => {
  it('tells the daemon, ends the stream and rejects who waits', async () => {
    const { connection, daemon } = await openWith();
    const waiting = failure(connection.call('connectGetHostname', undefined));
    await daemon.called('connectGetHostname');

    await connection.close();

    expect(await waiting).toMatchObject({ name: 'LibvirtTransportError' });
    expect(daemon.calls.at(-1)?.procedure).toBe('connectClose');
    await eventually(() => daemon.ended);
    expect(daemon.client.destroyed).toBe(true);
  });

  it('may be called twice at once and again', async () => {
    const { connection, daemon } = await openWith();

    await Promise.all([connection.close(), connection.close()]);
    await connection.close();

    expect(daemon.calls.filter(({ procedure }) => procedure === 'connectClose')).toHaveLength(1);
  });

  it('does not wait for a daemon that has stopped reading', async () => {
    const { connection, daemon } = await openWith();
    daemon.pause();
    await failure(connection.call('domainDefineXml', { xml: 'x'.repeat(1_000_000) }, { timeoutMs: 10 }));

    await connection.close();

    expect(daemon.client.destroyed).toBe(true);
  });

  it('survives an error of the stream that comes afterwards', async () => {
    const { connection, daemon } = await openWith();

    await connection.close();

    expect(() => daemon.client.emit('error', new Error('read ECONNRESET'))).not.toThrow();
  });
});
