/**
 * The data streams of one connection, by the serial of the call that opened them. Packets of a stream that is not (or no
 * longer) open are dropped without a word, as libvirt does: the client may have sent them before it heard of the error.
 */
import { type Frame, STREAM_PAYLOAD_MAX_BYTES } from '../../../../lib/libvirt/framing.ts';
import { encodeStreamError, encodeStreamPacket, MESSAGE_STATUS } from '../../../../lib/libvirt/message.ts';
import type { ProcedureName } from '../../../../lib/libvirt/protocol.ts';
import type { RemoteError } from '../../../../lib/libvirt/remote-error.ts';
import type { StepName } from '../fault-plan.ts';
import type { UploadSink } from './handler.ts';
import type { Outcome } from './under-faults.ts';

/** What a stream needs of its connection. */
export interface StreamPort {
  send(frame: Uint8Array): Promise<void>;
  /** Whether anybody would hear of what is sent. */
  canSend(): boolean;
  cut(): void;
  /** Counts the step and carries it out under its faults. */
  step<T>(name: StepName, execute: () => T): Promise<Outcome<T>>;
  toRemoteError(error: unknown): RemoteError;
}

interface OpenStream {
  readonly procedure: ProcedureName;
  /** Everything about one stream happens in order, also where a fault makes a step wait. */
  tail: Promise<void>;
  sink: UploadSink | undefined;
  isOpen: boolean;
}

export class ServerStreams {
  readonly #open = new Map<number, OpenStream>();
  readonly #port: StreamPort;

  constructor(port: StreamPort) {
    this.#port = port;
  }

  /** Registers a stream before its call is carried out, so that packets which come early wait for it. */
  expect(serial: number, procedure: ProcedureName, ready: Promise<UploadSink | undefined>): void {
    const stream: OpenStream = { procedure, sink: undefined, isOpen: true, tail: Promise.resolve() };
    stream.tail = ready.then((sink) => {
      stream.sink = sink;
      if (!sink) {
        this.#close(serial, stream);
      }
    });
    this.#open.set(serial, stream);
  }

  /** Sends a volume's bytes, then the empty packet that ends them; stops when the client does, or is gone. */
  async send(serial: number, procedure: ProcedureName, source: Iterable<Uint8Array>): Promise<void> {
    const stream: OpenStream = { procedure, sink: undefined, isOpen: true, tail: Promise.resolve() };
    this.#open.set(serial, stream);
    const packet = (data?: Uint8Array): Uint8Array =>
      encodeStreamPacket(procedure, serial, MESSAGE_STATUS.continue, data);
    for (const data of source) {
      if (!stream.isOpen || !this.#port.canSend()) {
        return;
      }
      await this.#port.send(packet(data.subarray(0, STREAM_PAYLOAD_MAX_BYTES)));
    }
    await this.#port.send(packet());
  }

  /** One packet from the client. */
  receive({ header, payload }: Frame): void {
    const stream = this.#open.get(header.serial);
    if (!stream) {
      return;
    }
    stream.tail = stream.tail.then(async () => {
      if (stream.isOpen) {
        await this.#handle(header.serial, stream, header.status, payload);
      }
    });
  }

  async #handle(serial: number, stream: OpenStream, status: number, payload: Uint8Array): Promise<void> {
    const { sink } = stream;
    if (status === MESSAGE_STATUS.continue) {
      if (sink) {
        const outcome = await this.#port.step('storageVolUpload:data', () => sink(payload));
        await this.#conclude(serial, stream, outcome);
      }
      return;
    }
    this.#close(serial, stream);
    // An abort is confirmed like a regular end, and what was written stays.
    const outcome =
      sink && status === MESSAGE_STATUS.ok
        ? await this.#port.step('storageVolUpload:finish', () => undefined)
        : { kind: 'done' as const };
    if (outcome.kind === 'done') {
      await this.#port.send(encodeStreamPacket(stream.procedure, serial, MESSAGE_STATUS.ok));
    } else {
      await this.#conclude(serial, stream, outcome);
    }
  }

  async #conclude(serial: number, stream: OpenStream, outcome: Outcome<void>): Promise<void> {
    if (outcome.kind === 'cut') {
      this.#port.cut();
    } else if (outcome.kind === 'failed') {
      this.#close(serial, stream);
      await this.#port.send(
        encodeStreamError(stream.procedure, serial, this.#port.toRemoteError(outcome.error)),
      );
    }
  }

  #close(serial: number, stream: OpenStream): void {
    stream.isOpen = false;
    this.#open.delete(serial);
  }
}
