/**
 * The other end of a client's stream: decodes every message it is sent with the protocol table and answers as a test
 * says. A call that no handler was given for is kept and not answered.
 */
import { type Duplex, duplexPair } from 'node:stream';
import { type Frame, FrameDecoder, type MessageHeader } from '../../../lib/libvirt/framing.ts';
import {
  decodeArgs,
  encodeErrorReply,
  encodeReply,
  encodeStreamError,
  encodeStreamPacket,
  isProcedureFrame,
  MESSAGE_STATUS,
  MESSAGE_TYPE,
} from '../../../lib/libvirt/message.ts';
import { type ProcedureName, type ProcedureResult, procedureName } from '../../../lib/libvirt/protocol.ts';
import { buildRemoteError, type RemoteError } from '../../../lib/libvirt/remote-error.ts';

export interface FakeCall {
  readonly procedure: ProcedureName;
  readonly serial: number;
  readonly args: unknown;
  readonly header: MessageHeader;
}

type ErrorFields = Pick<RemoteError, 'code' | 'message'> & Partial<RemoteError>;
type Handler = (call: FakeCall, daemon: FakeDaemon) => void;
export type Handlers = Partial<Record<ProcedureName, Handler>>;

const EMPTY = new Uint8Array(0);
/** 250 MiB of full packets, which no test sends: all are kept, and a client that never stops would fill the memory. */
const PACKETS_MAX = 1_000;

export class FakeDaemon {
  readonly client: Duplex;
  readonly calls: FakeCall[] = [];
  /** Stream packets from the client. */
  readonly packets: Frame[] = [];
  /** Keepalives and whatever else is no call. */
  readonly others: Frame[] = [];
  onPacket: (packet: Frame) => void = () => undefined;
  ended = false;
  readonly #stream: Duplex;
  readonly #handlers: Handlers;

  constructor(handlers: Handlers = {}) {
    const [client, stream] = duplexPair();
    this.client = client;
    this.#stream = stream;
    this.#handlers = {
      connectOpen: (call, daemon) => daemon.reply('connectOpen', call, undefined),
      ...handlers,
    };
    const decoder = new FrameDecoder();
    stream.on('data', (chunk: Uint8Array) => decoder.push(chunk, (frame) => this.#receive(frame)));
    stream.on('end', () => {
      this.ended = true;
    });
    stream.on('error', () => undefined);
  }

  reply<N extends ProcedureName>(procedure: N, call: FakeCall, result: ProcedureResult<N>): void {
    this.write(encodeReply(procedure, call.serial, result));
  }

  refuse(call: FakeCall, error: ErrorFields): void {
    this.write(encodeErrorReply(call.header, buildRemoteError({ domain: 10, ...error })));
  }

  packet(call: FakeCall, status: keyof typeof MESSAGE_STATUS, data: Uint8Array = EMPTY): void {
    this.write(encodeStreamPacket(call.procedure, call.serial, MESSAGE_STATUS[status], data));
  }

  failStream(call: FakeCall, error: ErrorFields): void {
    this.write(encodeStreamError(call.procedure, call.serial, buildRemoteError({ domain: 18, ...error })));
  }

  write(bytes: Uint8Array): void {
    this.#stream.write(bytes);
  }

  /** Stops reading what the client sends. */
  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** Ends the daemon's side, as when it exits. */
  end(): void {
    this.#stream.end();
  }

  /** True while the client does not take what was written. */
  get blocked(): boolean {
    return this.#stream.writableNeedDrain;
  }

  /** The call of that name, waiting for it if it has not come yet. */
  async called(procedure: ProcedureName): Promise<FakeCall> {
    return await eventually(() => this.calls.find((call) => call.procedure === procedure));
  }

  /** Everything the client sent in CONTINUE packets. */
  get data(): Buffer {
    return Buffer.concat(
      this.packets.filter(({ header }) => header.status === MESSAGE_STATUS.continue).map((p) => p.payload),
    );
  }

  #receive(frame: Frame): void {
    const procedure = isProcedureFrame(frame) ? procedureName(frame.header) : undefined;
    if (procedure === undefined) {
      this.others.push(frame);
    } else if (frame.header.type === MESSAGE_TYPE.stream) {
      this.packets.push(frame);
      this.onPacket(frame);
      if (this.packets.length === PACKETS_MAX) {
        this.#stream.destroy(new Error('the client sends without end'));
      }
    } else {
      const { header } = frame;
      const call = { procedure, serial: header.serial, args: decodeArgs(procedure, frame.payload), header };
      this.calls.push(call);
      this.#handlers[procedure]?.(call, this);
    }
  }
}

/** Polls between turns of the event loop; the test's own timeout ends it. */
export async function eventually<T>(probe: () => T | undefined | false): Promise<T> {
  for (;;) {
    const found = probe();
    if (found !== undefined && found !== false) {
      return found;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}
