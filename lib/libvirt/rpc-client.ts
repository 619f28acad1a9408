/**
 * Calls and streams over one message channel. Any number may be in flight; each has its own deadline and signal, and
 * giving one up leaves the others alone.
 */
import type { Duplex } from 'node:stream';
import { throwIfExpired, type Wait, watchDeadline } from './deadline.ts';
import type { Frame } from './framing.ts';
import { decodeResult, encodeCall, encodeStreamPacket, MESSAGE_STATUS, sealStreamData } from './message.ts';
import { MessageChannel } from './message-channel.ts';
import { PendingCalls } from './pending-calls.ts';
import type {
  CallProcedureName,
  DownloadProcedureName,
  ProcedureArgs,
  ProcedureResult,
  UploadProcedureName,
} from './protocol.ts';
import { RpcStream } from './rpc-stream.ts';

export interface CallOptions {
  /** Gives the call up and rejects with the signal's reason. What the daemon already began, it goes on with. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Call: until the reply. Upload and download: the longest time in which nothing moves, not the whole transfer.
   * In milliseconds; default: the connection's.
   */
  readonly timeoutMs?: number | undefined;
}

export class RpcClient {
  readonly #pending = new PendingCalls();
  readonly #congested = new Set<RpcStream>();
  readonly #channel: MessageChannel;
  readonly #timeoutMs: number;

  constructor(stream: Duplex, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#channel = new MessageChannel(stream, {
      onMessage: (frame) => this.#onMessage(frame),
      onOver: (reason) => this.#pending.rejectAll(reason),
    });
  }

  get over(): boolean {
    return this.#channel.over !== undefined;
  }

  async call<N extends CallProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    options: CallOptions = {},
  ): Promise<ProcedureResult<N>> {
    const wait = this.#wait(options);
    throwIfExpired(procedure, wait);
    this.#throwIfOver();
    const serial = this.#pending.nextSerial();
    const frame = encodeCall(procedure, serial, args);
    const { promise, resolve, reject } = Promise.withResolvers<ProcedureResult<N>>();
    const callOff = watchDeadline(procedure, wait, (reason) => {
      this.#pending.remove(serial);
      reject(reason);
    });
    this.#pending.add(serial, {
      procedure,
      onReply: (payload) => resolve(decodeResult(procedure, payload)),
      onError: reject,
    });
    this.#updateReading();
    this.#channel.send(frame);
    try {
      return await promise;
    } finally {
      callOff();
    }
  }

  /** Sends the call that begins a stream and resolves when the daemon agreed to it. */
  async openStream<N extends UploadProcedureName | DownloadProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    options: CallOptions = {},
  ): Promise<RpcStream> {
    const wait = this.#wait(options);
    throwIfExpired(procedure, wait);
    this.#throwIfOver();
    const serial = this.#pending.nextSerial();
    const frame = encodeCall(procedure, serial, args);
    const stream = new RpcStream(procedure, wait, {
      send: (status) => this.#channel.send(encodeStreamPacket(procedure, serial, status)),
      sendData: (frame) => this.#channel.send(sealStreamData(procedure, serial, frame)),
      writable: () => this.#channel.writable(),
      setCongested: (congested) => {
        this.#congested[congested ? 'add' : 'delete'](stream);
        this.#updateReading();
      },
      leave: (opened) => this.#leaveStream(procedure, serial, opened),
    });
    this.#pending.add(serial, stream);
    this.#updateReading();
    this.#channel.send(frame);
    await stream.opened();
    return stream;
  }

  /** Everything that waits rejects; the daemon is told without waiting for it. May be called again. */
  close(): Promise<void> {
    return this.#channel.close(encodeCall('connectClose', this.#pending.nextSerial(), undefined));
  }

  #onMessage(frame: Frame): void {
    this.#pending.route(frame);
    this.#updateReading();
  }

  /**
   * Forgets a stream. One given up before the daemon answered is aborted when the answer comes: until then the daemon
   * drops packets for it, and a stream nobody ends keeps the volume in use as long as the connection lives.
   */
  #leaveStream(
    procedure: UploadProcedureName | DownloadProcedureName,
    serial: number,
    opened: boolean,
  ): void {
    if (opened) {
      this.#pending.remove(serial);
    } else if (!this.over) {
      this.#pending.add(serial, {
        procedure,
        onReply: () => this.#channel.send(encodeStreamPacket(procedure, serial, MESSAGE_STATUS.error)),
        onError: () => undefined,
      });
    }
    this.#updateReading();
  }

  /**
   * libvirt's streams have no flow control of their own: a download that nobody consumes is held back by not reading
   * at all, unless something else waits for an answer on this connection.
   */
  #updateReading(): void {
    const othersWait = this.#pending.size > this.#congested.size;
    this.#channel.setReading(this.#congested.size === 0 || othersWait);
  }

  #throwIfOver(): void {
    if (this.#channel.over) {
      throw this.#channel.over;
    }
  }

  #wait({ signal, timeoutMs = this.#timeoutMs }: CallOptions): Wait {
    return { signal, timeoutMs };
  }
}
