/**
 * A channel as an ordinary Duplex. ssh2's own neither fails nor emits `close` when the connection dies, keeps a pending
 * write's callback for ever, and counts only the channel's window: whoever waits on it would wait without end.
 */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { ClientChannel } from 'ssh2';

export interface ChannelStreamOptions {
  /** The connection's socket, whose own buffer counts as backpressure too. */
  readonly socket: Socket;
  /**
   * Makes the end wait for the channel's close and asks then whether it was one: a command's exit code comes between
   * the end of its output and the close.
   */
  readonly explainEnd?: () => Error | null;
}

/**
 * What may wait in the socket's own buffer. Node's 64 KiB are less than one packet of an upload: sshd would have taken it
 * before the next one is encrypted, and each would wait for the other.
 */
const SOCKET_BUFFER_BYTES = 512 * 1024;

type WriteCallback = (error?: Error | null) => void;

export class ChannelStream extends Duplex {
  readonly #channel: ClientChannel;
  readonly #socket: Socket;
  /** The write that ssh2 has not taken yet: it never will once the channel is gone, so destroying answers it. */
  #pendingWrite: WriteCallback | null = null;
  /** The command has ended and its exit code is on its way: that is the reason to give, not a write after the end. */
  #awaitsExit = false;

  constructor(channel: ClientChannel, { socket, explainEnd }: ChannelStreamOptions) {
    super({ allowHalfOpen: false });
    this.#channel = channel;
    this.#socket = socket;
    // An error that arrives when nobody listens any more must not take the process down; `close` still tells.
    this.on('error', () => {});

    channel.on('data', (chunk: Buffer) => {
      if (!this.destroyed && !this.push(chunk)) channel.pause();
    });
    channel.on('end', () => {
      if (!explainEnd) return this.#endReading();
      this.#awaitsExit = true;
      channel.end();
    });
    channel.on('close', () => {
      const error = explainEnd?.();
      if (error) return this.destroy(error);
      this.#settleWrite(new Error('the command has ended'));
      return this.#endReading();
    });
    channel.on('error', (error: Error) => this.destroy(error));
    // Unread extended data would close the window of the whole channel.
    channel.stderr.resume();
  }

  override _read(): void {
    this.#channel.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: WriteCallback): void {
    this.#write(chunk, callback);
  }

  /** What was written in one turn is one piece for ssh2, which makes a packet of each. */
  override _writev(chunks: { readonly chunk: Buffer }[], callback: WriteCallback): void {
    this.#write(Buffer.concat(chunks.map(({ chunk }) => chunk)), callback);
  }

  override _final(callback: WriteCallback): void {
    this.#channel.end();
    callback();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#settleWrite(error ?? new Error('the stream was closed'));
    this.#channel.close();
    // What still arrives is dropped, so that ssh2 gets to the channel's end.
    this.#channel.resume();
    callback(error);
  }

  #write(chunk: Buffer, callback: WriteCallback): void {
    this.#pendingWrite = callback;
    if (this.#awaitsExit) return;
    // ssh2 makes packets of at most 32 KiB and writes each: together they are one call of the kernel instead of nine.
    this.#socket.cork();
    this.#channel.write(chunk, (error) => {
      if (error) this.#settleWrite(error);
      else if (this.#socket.writableLength >= SOCKET_BUFFER_BYTES)
        this.#socket.once('drain', () => this.#settleWrite());
      else this.#settleWrite();
    });
    this.#socket.uncork();
  }

  #settleWrite(error?: Error): void {
    const callback = this.#pendingWrite;
    this.#pendingWrite = null;
    callback?.(error);
  }

  #endReading(): void {
    if (!this.destroyed && !this.readableEnded) this.push(null);
  }
}
