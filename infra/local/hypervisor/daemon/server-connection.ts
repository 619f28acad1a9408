/**
 * One client's connection, from the daemon's side: frames in, answers out. Calls are carried out side by side, at most
 * five of one client at a time (libvirt's max_client_requests); while five are under way nothing more is read, so a
 * client that waits for a stuck guest five times over is not heard with a sixth call either.
 */
import type { Duplex } from 'node:stream';
import { type Frame, FrameDecoder } from '../../../../lib/libvirt/framing.ts';
import {
  encodeErrorReply,
  encodeKeepalive,
  encodeReply,
  isKeepalive,
  isProcedureFrame,
  MESSAGE_TYPE,
} from '../../../../lib/libvirt/message.ts';
import {
  type CallProcedureName,
  type DownloadProcedureName,
  type ProcedureArgs,
  type ProcedureName,
  procedureName,
  type UploadProcedureName,
} from '../../../../lib/libvirt/protocol.ts';
import type { RemoteError } from '../../../../lib/libvirt/remote-error.ts';
import type { FaultPlan, StepName } from '../fault-plan.ts';
import { admit, decodeCall, refuseUnknown } from './call-admission.ts';
import { DaemonError, ERROR_DOMAIN, internalError } from './daemon-error.ts';
import { downloadHandlers, handlers, uploadHandlers } from './dispatch.ts';
import type { Caller, Handler, UploadSink } from './handler.ts';
import { ServerStreams } from './server-streams.ts';
import { type Outcome, underFaults } from './under-faults.ts';

const MAX_CALLS_AT_ONCE = 5;
const isUpload = (name: ProcedureName): name is UploadProcedureName => Object.hasOwn(uploadHandlers, name);
const isDownload = (name: ProcedureName): name is DownloadProcedureName =>
  Object.hasOwn(downloadHandlers, name);

export class ServerConnection {
  readonly #stream: Duplex;
  readonly #caller: Caller;
  readonly #faults: FaultPlan;
  readonly #number: number;
  readonly #streams: ServerStreams;
  readonly #underWay = new Set<Promise<void>>();
  /** From here on nothing is heard or said, whatever the stream still carries: closing an SSH channel takes a while. */
  #isCut = false;

  constructor(options: {
    readonly stream: Duplex;
    readonly caller: Caller;
    readonly faults: FaultPlan;
    readonly number: number;
  }) {
    this.#stream = options.stream;
    this.#caller = options.caller;
    this.#faults = options.faults;
    this.#number = options.number;
    this.#streams = new ServerStreams({
      send: (frame) => this.#send(frame),
      canSend: () => this.#canSend,
      cut: () => this.cut(),
      step: (name, execute) => this.#step(name, undefined, execute),
      toRemoteError,
    });
  }

  /** Serves until the connection ends, however it ends. */
  async serve(): Promise<void> {
    this.#stream.on('error', () => this.#stream.destroy());
    const decoder = new FrameDecoder();
    try {
      for await (const chunk of this.#stream) {
        const frames: Frame[] = [];
        decoder.push(chunk, (frame) => frames.push(frame));
        for (const frame of frames) {
          if (!this.#isCut) {
            await this.#receive(frame);
          }
        }
      }
    } catch {
      // A frame that cannot be one, or a client that went away: libvirt drops the connection in both cases.
    } finally {
      this.#stream.destroy();
    }
  }

  /** As a network does it: without a word. */
  cut(): void {
    this.#isCut = true;
    this.#stream.destroy();
  }

  async #receive(frame: Frame): Promise<void> {
    const { type } = frame.header;
    if (isKeepalive(frame, 'ping')) {
      await this.#send(encodeKeepalive('pong'));
    } else if (type === MESSAGE_TYPE.stream && isProcedureFrame(frame)) {
      this.#streams.receive(frame);
    } else if (type === MESSAGE_TYPE.call) {
      while (this.#underWay.size >= MAX_CALLS_AT_ONCE) {
        await Promise.race(this.#underWay);
      }
      const call = this.#call(frame).finally(() => this.#underWay.delete(call));
      this.#underWay.add(call);
    }
  }

  async #call(frame: Frame): Promise<void> {
    const name = isProcedureFrame(frame) ? procedureName(frame.header) : undefined;
    if (name === undefined) {
      await this.#answer(frame, await this.#step('unknown', undefined, () => refuseUnknown(frame.header)));
    } else if (isUpload(name)) {
      await this.#upload(name, frame);
    } else if (isDownload(name)) {
      await this.#download(name, frame);
    } else {
      const outcome = await this.#invoke(name, frame, (args) => this.#reply(name, frame, args));
      await this.#answer(frame, outcome);
      if (name === 'connectClose' && outcome.kind === 'done') {
        this.#stream.end();
      }
    }
  }

  async #reply<N extends CallProcedureName>(
    name: N,
    { header }: Frame,
    args: ProcedureArgs<N>,
  ): Promise<Uint8Array> {
    const handler: Handler<N> = handlers[name];
    return encodeReply(name, header.serial, await handler(args, this.#caller));
  }

  async #upload(name: UploadProcedureName, frame: Frame): Promise<void> {
    const opened = this.#invoke(name, frame, (args) => uploadHandlers[name](args, this.#caller));
    const sink = opened.then((outcome): UploadSink | undefined =>
      outcome.kind === 'done' ? outcome.value : undefined,
    );
    this.#streams.expect(frame.header.serial, name, sink);
    await this.#answer(
      frame,
      mapDone(await opened, () => encodeReply(name, frame.header.serial, undefined)),
    );
  }

  async #download(name: DownloadProcedureName, frame: Frame): Promise<void> {
    const { serial } = frame.header;
    const opened = await this.#invoke(name, frame, (args) => downloadHandlers[name](args, this.#caller));
    await this.#answer(
      frame,
      mapDone(opened, () => encodeReply(name, serial, undefined)),
    );
    if (opened.kind === 'done') {
      await this.#streams.send(serial, name, opened.value);
    }
  }

  /** Counted here, before anything is waited for: call numbers follow the order of arrival. */
  #invoke<N extends ProcedureName, T>(
    name: N,
    { header, payload }: Frame,
    execute: (args: ProcedureArgs<N>) => T | Promise<T>,
  ): Promise<Outcome<T>> {
    const decoded = decodeCall(name, payload);
    return this.#step(name, decoded?.args, () => execute(admit(name, header, decoded, this.#caller.session)));
  }

  #step<T>(name: StepName, args: unknown, execute: () => T | Promise<T>): Promise<Outcome<T>> {
    const planned = this.#faults.next({ name, connection: this.#number, args });
    return underFaults(planned, this.#caller.sleep, execute);
  }

  async #answer({ header }: Frame, outcome: Outcome<Uint8Array>): Promise<void> {
    switch (outcome.kind) {
      case 'done':
        return this.#send(outcome.value);
      case 'failed':
        return this.#send(encodeErrorReply(header, toRemoteError(outcome.error)));
      case 'cut':
        return this.cut();
      case 'silence':
        return;
    }
  }

  get #canSend(): boolean {
    return !this.#isCut && this.#stream.writable;
  }

  /** Resolves when the client has room for more; what a lost client does not get is nobody's loss. */
  async #send(frame: Uint8Array): Promise<void> {
    const stream = this.#stream;
    if (!this.#canSend || stream.write(frame)) {
      return;
    }
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        stream.off('drain', settle).off('close', settle);
        resolve();
      };
      stream.on('drain', settle).on('close', settle);
    });
  }
}

/** Anything but a DaemonError is a bug here; the client is told so rather than left waiting. */
const toRemoteError = (error: unknown): RemoteError =>
  error instanceof DaemonError
    ? error.remote
    : internalError(ERROR_DOMAIN.none, `embedded daemon: ${error instanceof Error ? error.stack : error}`)
        .remote;

const mapDone = <T, U>(outcome: Outcome<T>, map: (value: T) => U): Outcome<U> =>
  outcome.kind === 'done' ? { kind: 'done', value: map(outcome.value) } : outcome;
