/**
 * What a broken or hostile client may send to the embedded daemon: mutations and truncations of real messages of every
 * procedure, many on one connection, since the daemon answers what it does not understand and reads on. Numbers and
 * seeds as in test/unit/libvirt/fuzz.test.ts.
 */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import type { Step } from '../../../../infra/local/hypervisor/fault-plan.ts';
import {
  encodeFrame,
  FRAME_PREFIX_BYTES,
  type Frame,
  FrameDecoder,
} from '../../../../lib/libvirt/framing.ts';
import { LibvirtConnection } from '../../../../lib/libvirt/index.ts';
import {
  encodeCall,
  encodeKeepalive,
  isKeepalive,
  MESSAGE_STATUS,
  MESSAGE_TYPE,
} from '../../../../lib/libvirt/message.ts';
import { procedureName, procedures, programOf } from '../../../../lib/libvirt/protocol.ts';
import { decodeRemoteError } from '../../../../lib/libvirt/remote-error.ts';
import { fromClient, type Sample } from '../../libvirt/frame-samples.ts';
import {
  firstSeed,
  framesWanted,
  hasImpossibleLength,
  lieAboutLength,
  mutate,
  pick,
  type Random,
  randomOf,
  truncate,
  withSerial,
} from '../../libvirt/mutate-frame.ts';
import { domainXml } from './daemon-client.ts';

const FRAMES = framesWanted(100_000);
const FRAMES_A_BATCH = 100;
const BATCHES_A_DAEMON = 20;
/** Serials are few, so that packets find streams. */
const SERIALS = 50;
const MEMORY_A_DAEMON_BYTES = 256 * 1_048_576;

const PING = encodeKeepalive('ping');
/** Not mutated: they end the session or break it, and what follows would be refused without a look. */
const ENDS_THE_SESSION: readonly string[] = ['connectOpen', 'connectClose'];
const samples = fromClient.filter(({ procedure }) => !ENDS_THE_SESSION.includes(procedure));

/** A client that says anything, and reads all that it is told. */
class Client {
  readonly stream: Duplex;
  readonly replies: Frame[] = [];
  #pongs = 0;
  #ended = false;

  constructor(stream: Duplex) {
    this.stream = stream;
    const decoder = new FrameDecoder();
    stream.on('data', (chunk: Buffer) =>
      decoder.push(chunk, (frame) => {
        if (isKeepalive(frame, 'pong')) this.#pongs += 1;
        else this.replies.push(frame);
      }),
    );
    stream.on('error', () => undefined);
    for (const event of ['end', 'close']) {
      stream.on(event, () => {
        this.#ended = true;
      });
    }
    stream.write(encodeCall('connectOpen', 0, { name: 'qemu:///system', flags: 0 }));
  }

  /** Sends frames, and resolves when the daemon has read them all: true, or when it has ended the connection: false. */
  async deliver(frames: readonly Uint8Array[]): Promise<boolean> {
    const wanted = this.#pongs + 1;
    this.stream.write(Buffer.concat([...frames, PING]));
    while (this.#pongs < wanted && !this.#ended) await turn();
    return !this.#ended;
  }
}

function startDaemon(): EmbeddedLibvirt {
  const daemon = createEmbeddedLibvirt({
    name: 'fuzz',
    bootMs: 0,
    shutdownMs: 0,
    storageBytes: 64 * 1_048_576,
    // Waiting is over at the next turn.
    sleep: () => turn(),
  });
  // A sparse volume of a mutated size would be sent for hours, to a real client as well.
  daemon.faults.when(isLongDownload, { kind: 'error', code: 38 });
  return daemon;
}

const isLongDownload = ({ name, args }: Step): boolean => {
  const { length } = Object(args);
  return name === 'storageVolDownload' && (length === 0n || length > 1_048_576n);
};

/** Everything that was recorded, but for what took it away again: mutations are to meet domains, pools and volumes. */
async function replayRecordings(client: Client): Promise<void> {
  const kept = samples.filter(({ procedure }) => !/Undefine|Destroy|Delete/.test(procedure));
  await client.deliver(kept.map(({ bytes }, index) => withSerial(bytes, 1_000 + index)));
}

interface Tally {
  frames: number;
  daemons: number;
  answered: number;
  refused: number;
  /** Steps that the daemons counted: calls that were understood at least as far as their header. */
  steps: number;
}

async function harass(random: Random, tally: Tally): Promise<void> {
  const daemon = startDaemon();
  const before = memoryInUse();
  let client = new Client(daemon.connect());
  await replayRecordings(client);
  for (let batch = 0; batch < BATCHES_A_DAEMON; batch += 1) {
    const frames = Array.from({ length: FRAMES_A_BATCH }, () =>
      mutate(withSerial(pick(samples, random).bytes, random(SERIALS)), random),
    );
    const known = client.replies.length;
    const isOpen = await client.deliver(frames);
    if (isOpen) tally.frames += frames.length;
    judge(client.replies.slice(known), tally);
    if (!isOpen || random(3) === 0) {
      if (isOpen) await endWithALie(client, random, tally);
      client = new Client(daemon.connect());
    }
  }
  tally.steps += daemon.faults.calls;
  tally.daemons += 1;
  expect(memoryInUse() - before).toBeLessThan(MEMORY_A_DAEMON_BYTES);
  client.stream.destroy();
  await serveAGoodClient(daemon);
  await daemon.close();
  while (daemon.sessions > 0) await turn();
}

const memoryInUse = (): number => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/** A daemon's answers are well-formed messages, and none of them tells of a fault in the daemon itself. */
function judge(replies: readonly Frame[], tally: Tally): void {
  for (const { header, payload } of replies) {
    expect([MESSAGE_TYPE.reply, MESSAGE_TYPE.stream]).toContain(header.type);
    if (header.status === MESSAGE_STATUS.error) {
      const { message } = decodeRemoteError(payload, 'connectOpen');
      if (message.startsWith('embedded daemon:')) throw new Error(message);
      tally.refused += 1;
    } else if (header.type === MESSAGE_TYPE.reply) {
      tally.answered += 1;
    }
  }
}

/** The last frame of a connection: an impossible length ends it, another waits for more that never comes. */
async function endWithALie(client: Client, random: Random, tally: Tally): Promise<void> {
  const frame = lieAboutLength(pick(samples, random).bytes, random);
  const closed = once(client.stream, 'close');
  client.stream.write(frame);
  tally.frames += 1;
  if (!hasImpossibleLength(frame)) client.stream.destroy();
  await closed;
}

async function serveAGoodClient(daemon: EmbeddedLibvirt): Promise<void> {
  daemon.faults.reset();
  daemon.state.files.capacityBytes = 2 ** 40;
  const connection = await LibvirtConnection.open(daemon.connect(), { timeoutMs: 60_000 });
  const xml = '<pool type="dir"><name>good</name><target><path>/good</path></target></pool>';
  const { pool } = await connection.call('storagePoolDefineXml', { xml, flags: 0 });
  await connection.call('storagePoolBuild', { pool, flags: 0 });
  await connection.call('storagePoolCreate', { pool, flags: 0 });
  const volumeXml =
    '<volume><name>v</name><capacity>9</capacity><target><format type="raw"/></target></volume>';
  const { vol } = await connection.call('storageVolCreateXml', { pool, xml: volumeXml, flags: 0 });
  const transfer = { vol, offset: 0n, length: 0n, flags: 0 };
  await connection.upload(
    'storageVolUpload',
    transfer,
    (async function* () {
      yield Buffer.from('good work');
    })(),
  );
  const received: Uint8Array[] = [];
  for await (const chunk of connection.download('storageVolDownload', transfer)) received.push(chunk);
  expect(Buffer.concat(received).toString()).toBe('good work');
  const { dom } = await connection.call('domainDefineXml', { xml: domainXml({ name: 'good-vm' }) });
  const found = await connection.call('domainLookupByName', { name: 'good-vm' });
  expect(found.dom).toEqual(dom);
  await connection.close();
}

describe('the embedded daemon', () => {
  it(`answers or hangs up whatever a client sends, and serves the next one: ${FRAMES} mutated frames`, async () => {
    const tally: Tally = { frames: 0, daemons: 0, answered: 0, refused: 0, steps: 0 };

    for (let seed = firstSeed(); tally.frames < FRAMES; seed += 1) {
      await harass(randomOf(seed), tally).catch((error: unknown) => {
        throw new Error(`LIBVIRT_FUZZ_SEED=${seed}`, { cause: error });
      });
    }

    console.log(`fuzz, daemon: ${JSON.stringify(tally)}`);
    // Most mutations must get past the frame and its header, or little was tried.
    expect(tally.refused).toBeGreaterThan(tally.frames / 4);
    expect(tally.answered).toBeGreaterThan(tally.frames / 100);
  }, 600_000);

  it('refuses every call whose arguments are cut, at whatever byte, and carries none of them out', async () => {
    const daemon = startDaemon();
    const client = new Client(daemon.connect());
    const cuts = truncations(samples);

    expect(await client.deliver(cuts)).toBe(true);

    console.log(`fuzz, daemon: ${cuts.length} truncations`);
    expect(cuts.length).toBeGreaterThan(2_000);
    const isOpening = ({ header }: Frame): boolean => procedureName(header) === 'connectOpen';
    expect(client.replies.filter(isOpening).map(({ header }) => header.status)).toEqual([MESSAGE_STATUS.ok]);
    const refusals = client.replies.filter((reply) => !isOpening(reply));
    expect(refusals).toHaveLength(cuts.length);
    for (const { header, payload } of refusals) {
      const what = procedureName(header) ?? 'connectOpen';
      expect(header.status, what).toBe(MESSAGE_STATUS.error);
      expect(decodeRemoteError(payload, what).code).toBe(39);
    }
    expect(daemon.state.domains.all).toEqual([]);
    await serveAGoodClient(daemon);
    await daemon.close();
  }, 600_000);

  it.each([
    ['a NUL in it, and takes it for its end', 'good-vm\0.evil', 0],
    ['more bytes than a message may have', 'x'.repeat(4_194_304), 42],
    ['a pair of surrogates where libvirt cuts', `${'x'.repeat(990)}${'😀'.repeat(30)}`, 42],
  ])('answers to a name with %s', async (_, name, code) => {
    const daemon = startDaemon();
    daemon.state.domains.define(domainXml({ name: 'good-vm' }));
    const client = new Client(daemon.connect());
    const text = Buffer.from(name);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(text.length);
    const padding = Buffer.alloc((4 - (text.length % 4)) % 4);
    const { number } = procedures.domainLookupByName;
    const header = {
      program: programOf('domainLookupByName'),
      version: 1,
      procedure: number,
      type: 0,
      serial: 7,
      status: 0,
    };

    expect(await client.deliver([encodeFrame(header, Buffer.concat([length, text, padding]))])).toBe(true);

    const reply = client.replies.find((frame) => frame.header.serial === 7) ?? expect.fail('no reply');
    const refused = reply.header.status === MESSAGE_STATUS.error;
    expect(refused ? decodeRemoteError(reply.payload, 'domainLookupByName').code : 0).toBe(code);
    await daemon.close();
  });

  it('stops sending a volume when the client has gone, however long it is', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'fuzz' });
    const setUp = await LibvirtConnection.open(daemon.connect());
    const { pool } = await setUp.call('storagePoolLookupByName', { name: 'default' });
    const xml = `<volume><name>v</name><capacity>${2n ** 42n}</capacity><allocation>0</allocation><target><format type="raw"/></target></volume>`;
    const { vol } = await setUp.call('storageVolCreateXml', { pool, xml, flags: 0 });
    const transfer = { vol, offset: 0n, length: 0n, flags: 0 };

    for await (const _ of setUp.download('storageVolDownload', transfer)) {
      await setUp.close();
      break;
    }

    while (daemon.sessions > 0) await turn();
    await serveAGoodClient(daemon);
    await daemon.close();
  }, 60_000);
});

/** Each call of the samples with its payload cut at every byte, one of each kind. */
function truncations(from: readonly Sample[]): Buffer[] {
  const longest = new Map<string, Sample>();
  for (const sample of from) {
    const known = longest.get(sample.procedure);
    if (sample.bytes[19] !== MESSAGE_TYPE.call || 'stream' in procedures[sample.procedure]) continue;
    if (known === undefined || sample.bytes.length > known.bytes.length)
      longest.set(sample.procedure, sample);
  }
  return [...longest.values()].flatMap(({ bytes }) =>
    Array.from({ length: bytes.length - FRAME_PREFIX_BYTES }, (_, cut) =>
      truncate(bytes, FRAME_PREFIX_BYTES + cut),
    ),
  );
}
