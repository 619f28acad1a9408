/**
 * Whole messages over a byte stream. Owns the stream: it is destroyed when the connection fails or is closed, and its
 * error listener stays for ever, because an ECONNRESET may come after everybody has left. Keepalives are answered here.
 */
import type { Duplex } from 'node:stream';
import { LibvirtTransportError } from './errors.ts';
import { type Frame, FrameDecoder } from './framing.ts';
import { encodeKeepalive, isKeepalive, isProcedureFrame } from './message.ts';

/** How long close() lets a peer that does not read hold up its last message. */
const CLOSE_GRACE_MS = 250;

export interface MessageListener {
  /** May throw: that ends the connection with the thrown error as the cause. */
  onMessage(frame: Frame): void;
  /** Called once, for a failure and for close() alike. */
  onOver(reason: LibvirtTransportError): void;
}

export class MessageChannel {
  readonly #stream: Duplex;
  readonly #listener: MessageListener;
  readonly #decoder = new FrameDecoder();
  readonly #drainWaiters = new Set<PromiseWithResolvers<void>>();
  #over: LibvirtTransportError | undefined;
  #corked = false;

  constructor(stream: Duplex, listener: MessageListener) {
    this.#stream = stream;
    this.#listener = listener;
    stream.on('error', (cause) => this.fail('the connection broke', cause));
    stream.on('end', () => this.#ended());
    stream.on('close', () => this.#ended());
    stream.on('drain', () => this.#drained());
    stream.on('data', (chunk: Uint8Array) => this.#receive(chunk));
    if (stream.destroyed || stream.readableEnded) {
      this.#ended();
    }
  }

  /** Why the connection is over, or undefined while it is not. */
  get over(): LibvirtTransportError | undefined {
    return this.#over;
  }

  /**
   * Hands the message to the stream without waiting. Dropped when the connection is over. Messages of one turn of the
   * event loop leave together: a hundred small calls are one packet of SSH and one call of the kernel, not a hundred.
   */
  send(frame: Uint8Array): void {
    if (this.#over) {
      return;
    }
    if (!this.#corked) {
      this.#corked = true;
      this.#stream.cork();
      // Not process.nextTick: a fast source and a fast peer in one process would leave no turn to anybody else.
      setImmediate(() => this.#uncork());
    }
    this.#stream.write(frame);
  }

  /** Resolves when the stream takes more without piling it up in memory. @throws why the connection is over. */
  async writable(): Promise<void> {
    if (this.#over) {
      throw this.#over;
    }
    if (this.#stream.writableNeedDrain) {
      const waiter = Promise.withResolvers<void>();
      this.#drainWaiters.add(waiter);
      await waiter.promise;
    }
  }

  /** Stops or restarts reading; used for a download whose consumer is slow. */
  setReading(reading: boolean): void {
    if (reading && this.#stream.isPaused()) {
      this.#stream.resume();
    } else if (!reading && !this.#stream.isPaused()) {
      this.#stream.pause();
    }
  }

  /** Ends the connection and everything that waits on it. Further calls change nothing. */
  fail(message: string, cause?: unknown): void {
    if (this.#finish(cause instanceof LibvirtTransportError ? cause : transportError(message, cause))) {
      this.#stream.destroy();
    }
  }

  /** Sends a last message, without waiting for its answer, and gives the stream back. May be called again. */
  async close(lastMessage: Uint8Array): Promise<void> {
    if (!this.#finish(new LibvirtTransportError('the connection was closed'))) {
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_GRACE_MS);
    this.#stream.once('close', resolve);
    this.#stream.end(lastMessage, resolve);
    // Whatever is still on its way to us is of no interest, but must be read for `end` to be seen.
    this.#stream.resume();
    await promise;
    clearTimeout(timer);
    this.#stream.destroy();
  }

  #uncork(): void {
    this.#corked = false;
    this.#stream.uncork();
  }

  #receive(chunk: Uint8Array): void {
    try {
      // A message that ends the connection throws out of here: what follows it in the chunk means nothing.
      this.#decoder.push(chunk, (frame) => this.#dispatch(frame));
    } catch (cause) {
      this.fail('a message could not be understood', cause);
    }
  }

  #dispatch(frame: Frame): void {
    if (isKeepalive(frame, 'ping')) {
      this.send(encodeKeepalive('pong'));
    } else if (isProcedureFrame(frame)) {
      this.#listener.onMessage(frame);
    } else if (!isKeepalive(frame, 'pong')) {
      const { program, version } = frame.header;
      throw new LibvirtTransportError(
        `a message of program 0x${program.toString(16)} version ${version}, which was never spoken to`,
      );
    }
  }

  #ended(): void {
    const cut = this.#decoder.pendingBytes > 0;
    // A stream that broke before it came to us has told nobody who listens: its error is the reason all the same.
    const cause = this.#stream.errored ?? undefined;
    this.fail(cut ? 'the connection ended in the middle of a message' : 'the connection ended', cause);
  }

  #drained(): void {
    for (const waiter of this.#drainWaiters) {
      waiter.resolve();
    }
    this.#drainWaiters.clear();
  }

  /** True for the first reason only. */
  #finish(reason: LibvirtTransportError): boolean {
    if (this.#over) {
      return false;
    }
    this.#over = reason;
    for (const waiter of this.#drainWaiters) {
      waiter.reject(reason);
    }
    this.#drainWaiters.clear();
    this.#listener.onOver(reason);
    return true;
  }
}

function transportError(message: string, cause: unknown): LibvirtTransportError {
  return cause instanceof Error
    ? new LibvirtTransportError(`${message}: ${cause.message}`, { cause })
    : new LibvirtTransportError(message);
}
