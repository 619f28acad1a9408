/**
 * A session with a libvirt daemon over any byte stream: a unix socket, a forwarded one, or a pair in memory. The public
 * face of this folder; how calls travel is rpc-client.ts.
 */
import type { Duplex } from 'node:stream';
import { openSession } from './open.ts';
import type {
  CallProcedureName,
  DownloadProcedureName,
  ProcedureArgs,
  ProcedureResult,
  UploadProcedureName,
} from './protocol.ts';
import { type CallOptions, RpcClient } from './rpc-client.ts';
import { sendAll } from './upload.ts';

export type { CallOptions } from './rpc-client.ts';

const DEFAULT_TIMEOUT_MS = 30_000;

export interface OpenOptions {
  /** The driver to open; default `qemu:///system`. */
  readonly uri?: string | undefined;
  /** For opening as a whole, in milliseconds; default 30,000. */
  readonly timeoutMs?: number | undefined;
  /** The default of every later call, in milliseconds; default as for opening. */
  readonly callTimeoutMs?: number | undefined;
  /** Aborts opening only. */
  readonly signal?: AbortSignal | undefined;
}

export class LibvirtConnection {
  readonly #client: RpcClient;

  private constructor(client: RpcClient) {
    this.#client = client;
  }

  /**
   * Begins a session (REMOTE_PROC_CONNECT_OPEN, with polkit where the daemon asks for it). The stream belongs to the
   * connection from here on and is destroyed with it, also when opening fails.
   * @throws LibvirtAuthError, LibvirtError, LibvirtTransportError, LibvirtTimeoutError, or the signal's reason.
   */
  static async open(stream: Duplex, options: OpenOptions = {}): Promise<LibvirtConnection> {
    const { uri = 'qemu:///system', timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    const client = new RpcClient(stream, options.callTimeoutMs ?? timeoutMs);
    try {
      await openSession(client, uri, { signal, timeoutMs });
    } catch (error) {
      stream.destroy();
      throw error;
    }
    return new LibvirtConnection(client);
  }

  /** True once it was closed or broke; every call then rejects at once with the reason. */
  get closed(): boolean {
    return this.#client.over;
  }

  /**
   * One remote procedure. Calls may be in flight together and are answered in any order; they are sent in the order in
   * which they are made. 64-bit integers are bigint both ways.
   * @throws LibvirtError when the daemon refuses; LibvirtTimeoutError; LibvirtTransportError; the signal's reason;
   *   XdrError for arguments that the procedure cannot carry.
   */
  async call<N extends CallProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    options?: CallOptions,
  ): Promise<ProcedureResult<N>> {
    return await this.#client.call(procedure, args, options);
  }

  /**
   * Sends the source into a volume and resolves when the daemon confirmed the end (virStorageVolUpload). Memory: a few
   * packets of 256 KiB, however slow the daemon reads. On any failure the daemon is told and the source is ended.
   * libvirt checks no length: comparing what was sent with what was meant is the caller's.
   * @throws as call(), and whatever the source throws.
   */
  async upload<N extends UploadProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    source: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): Promise<void> {
    await sendAll(() => this.#client.openStream(procedure, args, options), source);
  }

  /**
   * The bytes of a volume, in the chunks in which they arrive (virStorageVolDownload). Begins with the first `next()`;
   * leaving the loop early tells the daemon. The loop ends normally only after the daemon confirmed the end.
   * While the consumer is slow and nothing else is asked on the connection, reading from it stops.
   * @throws as call(), from within the loop.
   */
  async *download<N extends DownloadProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const stream = await this.#client.openStream(procedure, args, options);
    try {
      for (;;) {
        const data = await stream.receive();
        if (data === undefined) {
          break;
        }
        yield data;
      }
      await stream.finish();
    } finally {
      stream.abort(new DOMException('the download was left early', 'AbortError'));
    }
  }

  /** Tells the daemon and gives the stream back, without waiting for an answer; never rejects; may be called again. */
  close(): Promise<void> {
    return this.#client.close();
  }
}
