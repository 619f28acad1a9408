/**
 * One libvirt session with one host, for one invocation. Every call's deadline is what the invocation has left, at
 * most CALL_LIMIT_MS, so that a daemon that never answers costs a call and not the invocation.
 */
import { LibvirtConnection } from '../libvirt/connection.ts';
import type {
  CallProcedureName,
  DownloadProcedureName,
  ProcedureArgs,
  ProcedureResult,
  UploadProcedureName,
} from '../libvirt/protocol.ts';
import { ProviderError } from '../provider/provider-error.ts';
import type { HostStream, KvmHost, KvmProviderOptions } from './provider-options.ts';

/** Longer than any call takes on a healthy host. lib/image, which calls by itself, has it as its default. */
const CALL_LIMIT_MS = 60_000;
/** TCP, SSH handshake and opening the driver. */
const CONNECT_LIMIT_MS = 20_000;

export interface CallOptions {
  /** A tighter limit than the session's own. */
  readonly timeoutMs?: number;
}

export class HostSession {
  readonly host: KvmHost;
  readonly connection: LibvirtConnection;
  readonly #carrier: HostStream;
  readonly #options: KvmProviderOptions;

  private constructor(
    host: KvmHost,
    carrier: HostStream,
    connection: LibvirtConnection,
    options: KvmProviderOptions,
  ) {
    this.host = host;
    this.#carrier = carrier;
    this.connection = connection;
    this.#options = options;
  }

  static async open(host: KvmHost, options: KvmProviderOptions): Promise<HostSession> {
    const limits = { timeoutMs: remainingMs(options, CONNECT_LIMIT_MS), ...signalOf(options) };
    const carrier = await options.dial(host.name, limits);
    try {
      const connection = await LibvirtConnection.open(carrier.stream, {
        ...limits,
        timeoutMs: remainingMs(options, CONNECT_LIMIT_MS),
        callTimeoutMs: CALL_LIMIT_MS,
      });
      return new HostSession(host, carrier, connection, options);
    } catch (error) {
      await carrier.close();
      throw error;
    }
  }

  /** @throws LibvirtError, LibvirtTransportError, LibvirtTimeoutError, ProviderError `timeout` when no time is left. */
  call<N extends CallProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    options: CallOptions = {},
  ): Promise<ProcedureResult<N>> {
    return this.connection.call(procedure, args, this.#limits(options.timeoutMs));
  }

  upload<N extends UploadProcedureName>(
    procedure: N,
    args: ProcedureArgs<N>,
    source: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    return this.connection.upload(procedure, args, source, this.#limits());
  }

  download<N extends DownloadProcedureName>(procedure: N, args: ProcedureArgs<N>): AsyncIterable<Uint8Array> {
    return this.connection.download(procedure, args, this.#limits());
  }

  get closed(): boolean {
    return this.connection.closed;
  }

  /** Safe to call twice; never rejects, since what it ends may have ended by itself. */
  async close(): Promise<void> {
    await this.connection.close().catch(() => undefined);
    await this.#carrier.close().catch(() => undefined);
  }

  #limits(limitMs = CALL_LIMIT_MS) {
    return { timeoutMs: remainingMs(this.#options, limitMs), ...signalOf(this.#options) };
  }
}

/** What the invocation has left, at most `limitMs`. @throws ProviderError `timeout` when that is nothing. */
export function remainingMs(
  options: Pick<KvmProviderOptions, 'deadlineAt' | 'now'>,
  limitMs: number,
): number {
  const leftMs = options.deadlineAt - options.now();
  if (leftMs <= 0) throw new ProviderError('timeout', 'the time of this invocation is used up');
  return Math.min(leftMs, limitMs);
}

function signalOf(options: KvmProviderOptions): { readonly signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}
