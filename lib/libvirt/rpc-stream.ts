/**
 * The client's half of one libvirt stream (upload or download) after its call. Packets share the serial of the call:
 * CONTINUE carries data, an empty CONTINUE is the daemon's end of data, OK ends the stream in both directions, ERROR
 * aborts it. One thing is waited for at a time, and whatever fails the stream interrupts that wait.
 */
import { type Wait, watchDeadline } from './deadline.ts';
import { LibvirtTransportError } from './errors.ts';
import { STREAM_PAYLOAD_MAX_BYTES } from './framing.ts';
import { MESSAGE_STATUS, type MessageStatus } from './message.ts';
import type { Waiter } from './pending-calls.ts';
import { type DownloadProcedureName, procedures, type UploadProcedureName } from './protocol.ts';

/** Above this a download stops the connection's reading: enough to keep a link busy, little enough for a Lambda. */
const CONGESTED_BYTES = 8 * STREAM_PAYLOAD_MAX_BYTES;

/** What a stream needs of the connection it runs on. */
export interface StreamLink {
  send(status: MessageStatus): void;
  /** A packet of data; `frame` has room for its header in front and is the link's from here on. */
  sendData(frame: Buffer): void;
  writable(): Promise<void>;
  setCongested(congested: boolean): void;
  /** Nothing more is wanted for this serial; `opened`: the daemon has agreed to the stream. */
  leave(opened: boolean): void;
}

type State = 'opening' | 'open' | 'finishing' | 'finished' | 'failed';

export class RpcStream implements Waiter {
  readonly procedure: UploadProcedureName | DownloadProcedureName;
  readonly #wait: Wait;
  readonly #link: StreamLink;
  readonly #received: Uint8Array[] = [];
  #receivedBytes = 0;
  /** No more data will come from the daemon. */
  #endOfData = false;
  #state: State = 'opening';
  #failure: { readonly reason: unknown } | undefined;
  #changed: (() => void) | undefined;
  #interrupt: ((reason: unknown) => void) | undefined;

  constructor(procedure: UploadProcedureName | DownloadProcedureName, wait: Wait, link: StreamLink) {
    this.procedure = procedure;
    this.#wait = wait;
    this.#link = link;
    wait.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  opened(): Promise<void> {
    return this.#until(() => this.#state !== 'opening');
  }

  /** Sends at most STREAM_PAYLOAD_MAX_BYTES, in a frame of their own, and resolves when the next may follow. */
  async send(frame: Buffer): Promise<void> {
    this.#throwIfFailed();
    this.#link.sendData(frame);
    await this.within(this.#link.writable(), this.#wait.timeoutMs);
  }

  /** The next data, or undefined at its end. */
  async receive(): Promise<Uint8Array | undefined> {
    await this.#until(() => this.#received.length > 0 || this.#endOfData);
    const data = this.#received.shift();
    this.#receivedBytes -= data?.length ?? 0;
    if (this.#receivedBytes <= CONGESTED_BYTES) {
      this.#link.setCongested(false);
    }
    return data;
  }

  /** Tells the daemon that this side is done, and resolves only when it confirmed. */
  async finish(): Promise<void> {
    if (this.#state === 'open') {
      this.#state = 'finishing';
      this.#link.send(MESSAGE_STATUS.ok);
    }
    await this.#until(() => this.#state === 'finished');
  }

  /** Ends the stream early and tells the daemon; without effect on one that has ended. */
  abort(reason: unknown): void {
    if (this.#state === 'failed' || this.#state === 'finished') {
      return;
    }
    const opened = this.#state !== 'opening';
    if (opened) {
      this.#link.send(MESSAGE_STATUS.error);
    }
    this.#fail(reason);
    this.#link.leave(opened);
  }

  /**
   * The event's outcome, unless the stream fails first; `timeoutMs` Infinity leaves the time to the event itself.
   * The event may settle later: nobody is told then.
   */
  within<T>(event: Promise<T>, timeoutMs: number): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const callOff =
      timeoutMs === Number.POSITIVE_INFINITY
        ? () => undefined
        : watchDeadline(this.procedure, { timeoutMs }, (reason) => this.abort(reason));
    const settle = (): void => {
      callOff();
      this.#interrupt = undefined;
    };
    this.#interrupt = (reason) => {
      settle();
      reject(reason);
    };
    event.then(
      (value) => {
        settle();
        resolve(value);
      },
      (reason: unknown) => {
        settle();
        reject(reason);
      },
    );
    if (this.#failure) {
      this.#interrupt(this.#failure.reason);
    }
    return promise;
  }

  onReply(): void {
    if (this.#state !== 'opening') {
      throw new LibvirtTransportError(`a second reply to ${this.procedure}`);
    }
    this.#state = 'open';
    this.#changed?.();
  }

  onPacket(status: number, data: Uint8Array): void {
    const upload = procedures[this.procedure].stream === 'upload';
    // A download's first packets may overtake its reply: the daemon attaches the stream before it queues the reply, and
    // sends from another thread. Seen on libvirtd 9.0 under load.
    if (this.#state === 'opening' && (upload || status !== MESSAGE_STATUS.continue)) {
      throw new LibvirtTransportError(`a packet of ${this.procedure} before its reply`);
    }
    if (status === MESSAGE_STATUS.continue) {
      this.#receiveData(data, upload);
    } else if (upload && this.#state !== 'finishing') {
      throw new LibvirtTransportError(`${this.procedure} was confirmed before its data ended`);
    } else {
      this.#endOfData = true;
      this.#end('finished');
      this.#link.leave(true);
      this.#changed?.();
    }
  }

  /** The daemon's error, or the connection's end. */
  onError(error: Error): void {
    this.#fail(error);
  }

  #receiveData(data: Uint8Array, upload: boolean): void {
    if (data.length === 0) {
      // The end of a download; some daemons send it at the end of an upload too.
      this.#endOfData = true;
    } else if (upload || this.#endOfData) {
      throw new LibvirtTransportError(`data from the daemon in ${this.procedure} where none can be`);
    } else {
      this.#received.push(data);
      this.#receivedBytes += data.length;
      if (this.#receivedBytes > CONGESTED_BYTES) {
        this.#link.setCongested(true);
      }
    }
    this.#changed?.();
  }

  async #until(condition: () => boolean): Promise<void> {
    this.#throwIfFailed();
    while (!condition()) {
      const change = Promise.withResolvers<void>();
      this.#changed = change.resolve;
      await this.within(change.promise, this.#wait.timeoutMs);
    }
  }

  readonly #onAbort = (): void => this.abort(this.#wait.signal?.reason);

  #fail(reason: unknown): void {
    this.#failure = { reason };
    this.#received.length = 0;
    this.#receivedBytes = 0;
    this.#end('failed');
    this.#interrupt?.(reason);
  }

  #end(state: 'finished' | 'failed'): void {
    this.#state = state;
    this.#wait.signal?.removeEventListener('abort', this.#onAbort);
    this.#link.setCongested(false);
  }

  #throwIfFailed(): void {
    if (this.#failure) {
      throw this.#failure.reason;
    }
  }
}
