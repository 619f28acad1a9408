/**
 * What a broken or hostile daemon may send: mutations of recorded frames, a few thousand in the normal suite, more with
 * LIBVIRT_FUZZ_ROUNDS=200000. A round that fails is repeated with LIBVIRT_FUZZ_SEED=<its seed> LIBVIRT_FUZZ_ROUNDS=1.
 */
import { duplexPair, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { decodeArgs, encodeReply, MESSAGE_TYPE } from '../../../lib/libvirt/message.ts';
import {
  type CallProcedureName,
  type ProcedureArgs,
  type ProcedureName,
  procedures,
} from '../../../lib/libvirt/protocol.ts';
import { readRecordings } from './recordings.ts';

const ROUNDS = Number(process.env['LIBVIRT_FUZZ_ROUNDS'] ?? 4_000);
const FIRST_SEED = Number(process.env['LIBVIRT_FUZZ_SEED'] ?? 1);

/** mulberry32: the same numbers for the same seed on every machine. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const recordings = readRecordings();
const answers = recordings.filter(({ from, bytes }) => from === 'daemon' && bytes.length < 4_000);

/** One to four of: a flipped bit, an edge value, a removed or doubled stretch, a lying length word. */
function mutate(bytes: Buffer, random: (below: number) => number): Buffer {
  let mutated = Buffer.from(bytes);
  for (let times = 1 + random(4); times > 0; times -= 1) {
    const at = random(mutated.length);
    const kind = random(6);
    if (kind === 0) {
      mutated[at] = (mutated[at] ?? 0) ^ (1 << random(8));
    } else if (kind === 1) {
      mutated[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)] ?? 0;
    } else if (kind === 2 && mutated.length > 32) {
      mutated = Buffer.concat([mutated.subarray(0, at), mutated.subarray(at + 1 + random(8))]);
    } else if (kind === 3) {
      mutated = Buffer.concat([mutated.subarray(0, at), mutated.subarray(Math.max(0, at - random(12)))]);
    } else if (kind === 4 && mutated.length >= 4) {
      mutated.writeUInt32BE([0, 27, 28, mutated.length + 4, 33_554_436, 0xffff_ffff][random(6)] ?? 0, 0);
    } else if (kind === 5 && mutated.length >= 32) {
      mutated.writeUInt32BE(random(0xffff_ffff), 28 + 4 * random(Math.floor((mutated.length - 28) / 4)));
    }
    if (mutated.length === 0) {
      return bytes;
    }
  }
  return mutated;
}

type AnyCall = { readonly procedure: CallProcedureName; readonly args: ProcedureArgs<CallProcedureName> };

const isCallProcedure = (name: ProcedureName): name is CallProcedureName => !('stream' in procedures[name]);

/** A recorded call of each procedure, to be made again. */
const calls: ReadonlyMap<ProcedureName, AnyCall> = new Map(
  recordings.flatMap(({ procedure, frame }) =>
    isCallProcedure(procedure) && frame.header.type === MESSAGE_TYPE.call
      ? [[procedure, { procedure, args: decodeArgs(procedure, frame.payload) }]]
      : [],
  ),
);

const transfer = { vol: { pool: 'lab', name: 'a', key: '/a' }, offset: 0n, length: 0n, flags: 0 };

async function send(connection: LibvirtConnection, procedure: ProcedureName): Promise<void> {
  if (procedure === 'storageVolUpload') {
    await connection.upload('storageVolUpload', transfer, Readable.from([Buffer.from('data')]));
  } else if (procedure === 'storageVolDownload') {
    for await (const _ of connection.download('storageVolDownload', transfer)) {
      // Only its end matters.
    }
  } else {
    const call = calls.get(procedure);
    expect(call, procedure).toBeDefined();
    await (call && connection.call(call.procedure, call.args));
  }
}

/** How it ended for the caller, whatever came; anything but an answer must be one of the client's own errors. */
const outcomeOf = (sent: Promise<void>): Promise<string> =>
  sent.then(
    () => 'answer',
    (error: unknown) => {
      expect(error).toMatchObject({ name: expect.stringMatching(/^Libvirt(|Transport)Error$/) });
      return error instanceof Error ? error.name : '';
    },
  );

/** A session that makes three recorded calls and is answered with mutations of what was answered then. */
async function round(seed: number): Promise<string[]> {
  const random = randomOf(seed);
  const [client, daemon] = duplexPair();
  daemon.on('error', () => undefined);
  daemon.resume();
  daemon.write(encodeReply('connectOpen', 1, undefined));
  const connection = await LibvirtConnection.open(client, { timeoutMs: 60_000 });
  const picked = Array.from({ length: 3 }, () => answers[random(answers.length)]).flatMap((p) => p ?? []);
  const waiting = picked.map(({ procedure }) => outcomeOf(send(connection, procedure)));

  picked.forEach(({ bytes, frame, procedure }, index) => {
    const serial = index + 2;
    if (frame.header.type === MESSAGE_TYPE.stream && !isCallProcedure(procedure)) {
      daemon.write(encodeReply(procedure, serial, undefined));
    }
    const answer = Buffer.from(bytes);
    // The serial that the client gave this call, so that the mutation gets past the look-up of waiting calls.
    answer.writeUInt32BE(serial, 20);
    const sent = random(4) === 0 ? answer : mutate(answer, random);
    const cutAt = random(sent.length);
    daemon.write(sent.subarray(0, cutAt));
    daemon.write(sent.subarray(cutAt));
  });
  daemon.end();

  const outcomes = await Promise.all(waiting);
  await connection.close();
  return outcomes;
}

describe('mutated frames from a daemon', () => {
  it(`end in the client’s own errors, ${ROUNDS} rounds: no crash, no hang, nothing unhandled`, async () => {
    const outcomes = new Map<string, number>();

    for (let seed = FIRST_SEED; seed < FIRST_SEED + ROUNDS; seed += 1) {
      const ended = await round(seed).catch((error: unknown) => {
        throw new Error(`seed ${seed}`, { cause: error });
      });
      for (const outcome of ended) {
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    }

    // A fuzz that only ever met one check would look just as green.
    const expected = ROUNDS < 1_000 ? [] : ['LibvirtError', 'LibvirtTransportError', 'answer'];
    for (const outcome of expected) {
      expect(outcomes.get(outcome) ?? 0, outcome).toBeGreaterThan(ROUNDS / 20);
    }
    expect([...outcomes.values()].reduce((sum, count) => sum + count, 0)).toBe(3 * ROUNDS);
  }, 600_000);
});
