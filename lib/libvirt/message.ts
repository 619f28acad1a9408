/**
 * Messages of libvirt's programs: calls, replies, stream packets and keepalives, for both sides of a connection. The
 * client and the embedded daemon encode and decode with these same functions and the same procedure table.
 */
import { encodeFrame, type Frame, type MessageHeader, sealFrame } from './framing.ts';
import {
  PROGRAM,
  PROGRAM_VERSION,
  type Procedure,
  type ProcedureArgs,
  type ProcedureName,
  type ProcedureResult,
  procedures,
  programOf,
} from './protocol.ts';
import { type RemoteError, remoteError } from './remote-error.ts';

/** KEEPALIVE_PROGRAM: either side may ping, the other answers with a pong; both are of type `message`. */
export const KEEPALIVE_PROGRAM = 0x6b65_6570;
export const KEEPALIVE_VERSION = 1;
export const KEEPALIVE_PROCEDURE = { ping: 1, pong: 2 } as const;

/** virNetMessageType. */
export const MESSAGE_TYPE = {
  call: 0,
  reply: 1,
  /** Events: pushed by the daemon, answered by nobody. */
  message: 2,
  stream: 3,
  callWithFds: 4,
  replyWithFds: 5,
  streamHole: 6,
} as const;

/** virNetMessageStatus. `continue` only in stream packets: more follow. */
export const MESSAGE_STATUS = { ok: 0, error: 1, continue: 2 } as const;
export type MessageStatus = (typeof MESSAGE_STATUS)[keyof typeof MESSAGE_STATUS];

const EMPTY = new Uint8Array(0);

const headerOf = (
  procedure: ProcedureName,
  type: number,
  serial: number,
  status: MessageStatus,
): MessageHeader => ({
  program: programOf(procedure),
  version: PROGRAM_VERSION,
  procedure: procedures[procedure].number,
  type,
  serial,
  status,
});

/** @throws XdrError when the arguments do not fit the procedure's schema. */
export function encodeCall<N extends ProcedureName>(
  procedure: N,
  serial: number,
  args: ProcedureArgs<N>,
): Uint8Array {
  const { args: schema }: Procedure = procedures[procedure];
  return encodeFrame(headerOf(procedure, MESSAGE_TYPE.call, serial, MESSAGE_STATUS.ok), schema.encode(args));
}

/** A successful reply, sent by a daemon. @throws XdrError when the result does not fit the procedure's schema. */
export function encodeReply<N extends ProcedureName>(
  procedure: N,
  serial: number,
  result: ProcedureResult<N>,
): Uint8Array {
  const { result: schema }: Procedure = procedures[procedure];
  return encodeFrame(
    headerOf(procedure, MESSAGE_TYPE.reply, serial, MESSAGE_STATUS.ok),
    schema.encode(result),
  );
}

/** A refusal, sent by a daemon. The header is the call's own, so that an unknown procedure can be refused too. */
export const encodeErrorReply = (call: MessageHeader, error: RemoteError): Uint8Array =>
  encodeFrame({ ...call, type: MESSAGE_TYPE.reply, status: MESSAGE_STATUS.error }, remoteError.encode(error));

/** Data of a stream (`continue`), its regular end (`ok`, empty) or its abort by the client (`error`, empty). */
export const encodeStreamPacket = (
  procedure: ProcedureName,
  serial: number,
  status: MessageStatus,
  data: Uint8Array = EMPTY,
): Uint8Array => encodeFrame(headerOf(procedure, MESSAGE_TYPE.stream, serial, status), data);

/** The same of data that stand in their frame already (allocateFrame). */
export const sealStreamData = (procedure: ProcedureName, serial: number, frame: Buffer): Buffer =>
  sealFrame(headerOf(procedure, MESSAGE_TYPE.stream, serial, MESSAGE_STATUS.continue), frame);

/** A daemon ends a stream with this error. */
export const encodeStreamError = (procedure: ProcedureName, serial: number, error: RemoteError): Uint8Array =>
  encodeFrame(
    headerOf(procedure, MESSAGE_TYPE.stream, serial, MESSAGE_STATUS.error),
    remoteError.encode(error),
  );

export const encodeKeepalive = (procedure: keyof typeof KEEPALIVE_PROCEDURE): Uint8Array =>
  encodeFrame(
    {
      program: KEEPALIVE_PROGRAM,
      version: KEEPALIVE_VERSION,
      procedure: KEEPALIVE_PROCEDURE[procedure],
      type: MESSAGE_TYPE.message,
      serial: 0,
      status: MESSAGE_STATUS.ok,
    },
    EMPTY,
  );

/** @throws XdrError on any byte too few or too many. */
export const decodeArgs = <N extends ProcedureName>(procedure: N, payload: Uint8Array): ProcedureArgs<N> =>
  decodeWith<ProcedureArgs<N>>(procedures[procedure].args, payload);

/** @throws XdrError on any byte too few or too many. */
export const decodeResult = <N extends ProcedureName>(
  procedure: N,
  payload: Uint8Array,
): ProcedureResult<N> => decodeWith<ProcedureResult<N>>(procedures[procedure].result, payload);

/** The table's entry types the value; TypeScript cannot follow a generic key through a union of schemas. */
const decodeWith = <T>(schema: Procedure['args'], payload: Uint8Array): T => schema.decode(payload) as T;

const PROGRAMS: readonly number[] = Object.values(PROGRAM);

/** Of a program that calls are made to; which of them answers which call is a question of its own. */
export const isProcedureFrame = ({ header }: { readonly header: MessageHeader }): boolean =>
  PROGRAMS.includes(header.program) && header.version === PROGRAM_VERSION;

export const isKeepalive = ({ header }: Frame, procedure: keyof typeof KEEPALIVE_PROCEDURE): boolean =>
  header.program === KEEPALIVE_PROGRAM &&
  header.version === KEEPALIVE_VERSION &&
  header.procedure === KEEPALIVE_PROCEDURE[procedure];
