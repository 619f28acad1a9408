/** Real and made-up messages of every procedure in the table, to mutate: recorded ones, and values drawn from the schemas. */
import fc from 'fast-check';
import {
  decodeArgs,
  encodeCall,
  encodeErrorReply,
  encodeReply,
  encodeStreamPacket,
  MESSAGE_STATUS,
  MESSAGE_TYPE,
} from '../../../lib/libvirt/message.ts';
import {
  type CallProcedureName,
  type Procedure,
  type ProcedureArgs,
  type ProcedureName,
  procedures,
  programOf,
} from '../../../lib/libvirt/protocol.ts';
import { type RemoteError, remoteError } from '../../../lib/libvirt/remote-error.ts';
import { readRecordings } from './recordings.ts';
import { arbitraryOf } from './schema-arbitrary.ts';

export interface Sample {
  readonly procedure: ProcedureName;
  readonly bytes: Uint8Array;
}

export type AnyCall = {
  readonly procedure: CallProcedureName;
  readonly args: ProcedureArgs<CallProcedureName>;
};

/** Longer ones are a few whole definitions; they would take most of the time and say nothing more. */
const LONGEST_BYTES = 4_000;
const PER_PROCEDURE = 3;
const SEED = 20_260_131;

const names = (Object.keys(procedures) as ProcedureName[]).sort();
export const isCallProcedure = (name: ProcedureName): name is CallProcedureName =>
  !('stream' in procedures[name]);

const draw = <T>(arbitrary: fc.Arbitrary<T>): T[] =>
  fc.sample(arbitrary, { seed: SEED, numRuns: PER_PROCEDURE });
const schemaOf = (name: ProcedureName): Procedure => procedures[name];

const recordings = readRecordings().filter(({ bytes }) => bytes.length <= LONGEST_BYTES);

/** What a daemon sends: replies, errors and stream packets. */
export const fromDaemon: readonly Sample[] = [
  ...recordings.filter(({ from }) => from === 'daemon'),
  ...names.flatMap((procedure): Sample[] => [
    ...draw(arbitraryOf(schemaOf(procedure).result)).map((result) => ({
      procedure,
      bytes: encodeReply(procedure, 1, result as never),
    })),
    ...draw(arbitraryOf(remoteError)).map((error) => ({
      procedure,
      bytes: encodeErrorReply(callHeader(procedure), error as RemoteError),
    })),
  ]),
];

/** What a client sends: calls and stream packets, and now and then the data of an upload. */
export const fromClient: readonly Sample[] = [
  ...recordings.filter(({ from }) => from === 'client'),
  ...names.flatMap((procedure): Sample[] =>
    draw(arbitraryOf(schemaOf(procedure).args)).map((args) => ({
      procedure,
      bytes: encodeCall(procedure, 1, args as never),
    })),
  ),
  ...Object.values(MESSAGE_STATUS).map((status): Sample => {
    const procedure = 'storageVolUpload';
    return { procedure, bytes: encodeStreamPacket(procedure, 1, status, Buffer.from('data')) };
  }),
];

/** A call of each procedure that ends with its reply: a recorded one where there is one. */
export const calls: ReadonlyMap<ProcedureName, AnyCall> = new Map(
  [
    ...names
      .filter(isCallProcedure)
      .flatMap((procedure): AnyCall[] =>
        draw(arbitraryOf(schemaOf(procedure).args)).map((args) => ({ procedure, args: args as never })),
      ),
    ...recordings.flatMap(({ procedure, frame }): AnyCall[] =>
      isCallProcedure(procedure) && frame.header.type === MESSAGE_TYPE.call
        ? [{ procedure, args: decodeArgs(procedure, frame.payload) }]
        : [],
    ),
  ].map((call) => [call.procedure, call]),
);

function callHeader(procedure: ProcedureName) {
  return {
    program: programOf(procedure),
    version: 1,
    procedure: procedures[procedure].number,
    type: MESSAGE_TYPE.call,
    serial: 1,
    status: MESSAGE_STATUS.ok,
  };
}
