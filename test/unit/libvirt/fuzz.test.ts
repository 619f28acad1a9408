/**
 * What a broken or hostile daemon may send to the client: mutations and truncations of real messages of every procedure.
 * `LIBVIRT_FUZZ_ROUNDS` asks for more frames than the usual; a connection that fails is repeated with
 * `LIBVIRT_FUZZ_SEED=<its seed> LIBVIRT_FUZZ_ROUNDS=1`. The daemon's side is test/unit/local/hypervisor/fuzz.test.ts.
 */
import { Duplex, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { FRAME_PREFIX_BYTES } from '../../../lib/libvirt/framing.ts';
import { encodeReply, MESSAGE_STATUS, MESSAGE_TYPE } from '../../../lib/libvirt/message.ts';
import type { ProcedureName } from '../../../lib/libvirt/protocol.ts';
import { calls, fromDaemon, isCallProcedure, type Sample } from './frame-samples.ts';
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
} from './mutate-frame.ts';

const FRAMES = framesWanted(100_000);
const FRAMES_A_CONNECTION = 40;
/** A frame may claim 32 MiB; what it brings is a few kilobytes. */
const MEMORY_A_FRAME_BYTES = 1_048_576;
const transfer = { vol: { pool: 'lab', name: 'a', key: '/a' }, offset: 0n, length: 0n, flags: 0 };

type Outcome = 'answer' | 'LibvirtError' | 'LibvirtTransportError';

/** The daemon's end, without a queue in between: the client has read a frame when `say` returns. */
class Peer {
  readonly stream = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  /** Of the last call that the client made; it numbers them from 1, and they need not have been written yet. */
  serial = 1;

  say(bytes: Uint8Array): void {
    this.stream.push(bytes);
  }
}

async function open(): Promise<{ readonly peer: Peer; readonly connection: LibvirtConnection }> {
  const peer = new Peer();
  const opening = LibvirtConnection.open(peer.stream, { timeoutMs: 600_000 });
  peer.say(encodeReply('connectOpen', peer.serial, undefined));
  return { peer, connection: await opening };
}

async function send(connection: LibvirtConnection, procedure: ProcedureName): Promise<void> {
  if (procedure === 'storageVolUpload') {
    await connection.upload('storageVolUpload', transfer, Readable.from([Buffer.from('data')]));
  } else if (procedure === 'storageVolDownload') {
    for await (const _ of connection.download('storageVolDownload', transfer)) {
      // Only its end matters.
    }
  } else {
    const call = calls.get(procedure) ?? expect.fail(`no call of ${procedure}`);
    await connection.call(call.procedure, call.args);
  }
}

/** How it ended for the caller; anything but an answer must be one of the client's own errors. */
const outcomeOf = (sent: Promise<void>): Promise<Outcome> =>
  sent.then(
    () => 'answer' as const,
    (error: unknown) => {
      const { name } = Object(error);
      if (name !== 'LibvirtError' && name !== 'LibvirtTransportError') {
        throw new Error(`the caller was told ${name}`, { cause: error });
      }
      return name;
    },
  );

/** Makes a call of the sample's kind and gives the daemon's message its serial, so that it gets past the look-up. */
function ask(connection: LibvirtConnection, peer: Peer, { procedure, bytes }: Sample) {
  const outcome = outcomeOf(send(connection, procedure));
  peer.serial += 1;
  const { serial } = peer;
  if (!isCallProcedure(procedure) && bytes[19] === MESSAGE_TYPE.stream) {
    peer.say(encodeReply(procedure, serial, undefined));
  }
  return { outcome, answer: withSerial(bytes, serial) };
}

interface Tally {
  frames: number;
  connections: number;
  readonly outcomes: Record<Outcome, number>;
}

/** One connection: calls that are answered with mutations, until it ends or has had its share. */
async function converse(random: Random, tally: Tally): Promise<void> {
  const { peer, connection } = await open();
  const waiting: Promise<Outcome>[] = [];
  for (let sent = 0; sent < FRAMES_A_CONNECTION && !connection.closed; sent += 1) {
    const { outcome, answer } = ask(connection, peer, pick(fromDaemon, random));
    waiting.push(outcome);
    const isLast = sent === FRAMES_A_CONNECTION - 1 || random(FRAMES_A_CONNECTION) === 0;
    const frame = isLast ? lieAboutLength(answer, random) : random(4) === 0 ? answer : mutate(answer, random);
    const before = isLast ? process.memoryUsage().arrayBuffers : 0;
    const cutAt = random(frame.length);
    peer.say(frame.subarray(0, cutAt));
    peer.say(frame.subarray(cutAt));
    tally.frames += 1;
    if (isLast) {
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(MEMORY_A_FRAME_BYTES);
      expect(connection.closed || !hasImpossibleLength(frame)).toBe(true);
      // What follows would be read as a part of this one.
      break;
    }
  }
  peer.stream.destroy();
  for (const outcome of await Promise.all(waiting)) tally.outcomes[outcome] += 1;
  await connection.close();
  tally.connections += 1;
}

describe('the client', () => {
  it(`ends in its own errors whatever the daemon sends: ${FRAMES} mutated frames`, async () => {
    const tally: Tally = {
      frames: 0,
      connections: 0,
      outcomes: { answer: 0, LibvirtError: 0, LibvirtTransportError: 0 },
    };

    for (let seed = firstSeed(); tally.frames < FRAMES; seed += 1) {
      await converse(randomOf(seed), tally).catch((error: unknown) => {
        throw new Error(`LIBVIRT_FUZZ_SEED=${seed}`, { cause: error });
      });
    }

    console.log(
      `fuzz, client: ${tally.frames} mutated frames on ${tally.connections} connections: ${JSON.stringify(tally.outcomes)}`,
    );
    // A fuzz that only ever met one check would look just as green.
    if (tally.frames >= 10_000) {
      for (const [outcome, count] of Object.entries(tally.outcomes)) {
        expect(count, outcome).toBeGreaterThan(tally.frames / 20);
      }
    }
    const { peer, connection } = await open();
    const asked = connection.call('connectGetHostname', undefined);
    peer.say(encodeReply('connectGetHostname', peer.serial + 1, { hostname: 'kvm-a' }));
    expect(await asked).toEqual({ hostname: 'kvm-a' });
  }, 600_000);

  it('takes no truncated message for an answer, at whatever byte it is cut', async () => {
    const shortest = new Map<string, Sample>();
    for (const sample of fromDaemon) {
      const kind = `${sample.procedure} ${sample.bytes[19]} ${sample.bytes[27]}`;
      const known = shortest.get(kind);
      if (sample.bytes[19] !== MESSAGE_TYPE.reply || sample.bytes.length === FRAME_PREFIX_BYTES) continue;
      if (known === undefined || sample.bytes.length < known.bytes.length) shortest.set(kind, sample);
    }
    let frames = 0;

    for (const sample of shortest.values()) {
      for (let length = FRAME_PREFIX_BYTES; length < sample.bytes.length; length += 1) {
        const { peer, connection } = await open();
        const { outcome, answer } = ask(connection, peer, sample);
        peer.say(truncate(answer, length));
        frames += 1;
        // Given up by now, unless the code could be read: its tail may be missing.
        const isError = sample.bytes[27] === MESSAGE_STATUS.error;
        expect(connection.closed || isError, `${sample.procedure}, ${length} bytes`).toBe(true);
        expect(await outcome).toMatch(isError ? /^Libvirt(Transport)?Error$/ : /^LibvirtTransportError$/);
        peer.stream.destroy();
      }
    }

    console.log(`fuzz, client: ${frames} truncations of ${shortest.size} kinds of messages`);
    expect(frames).toBeGreaterThan(1_000);
  }, 600_000);
});
