/**
 * An image on its way: opened, measured and its head inspected before anything is created on a host, then read once
 * as a stream that ends well only after exactly the announced number of bytes. Nothing is kept: no file in between.
 */
import { openFileSource } from './file-source.ts';
import { type Fetch, openHttpSource } from './http-source.ts';
import { ImageError } from './image-error.ts';
import { HEAD_BYTES, type ImageHeader, inspectHeader } from './image-header.ts';
import type { ImageSource } from './image-source.ts';
import type { OpenedSource } from './opened-source.ts';

/** How long a source may be silent, while we wait for it, before it is given up. */
const DEFAULT_STALL_MS = 60_000;

export interface ImageDownload {
  readonly sizeBytes: number;
  readonly header: ImageHeader;
  /** Every byte of the image, once. @throws ImageError `truncated`, `size-mismatch` or `stalled` */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Ends the transfer whatever its state. Repeatable. */
  close(): Promise<void>;
}

export interface DownloadOptions {
  readonly fetch: Fetch;
  readonly signal: AbortSignal;
  /** How long the source may be silent, in milliseconds; default 60,000. */
  readonly stallMs?: number | undefined;
}

/** @throws ImageError for every fault of the source; the signal's reason when it was aborted */
export async function openImage(source: ImageSource, options: DownloadOptions): Promise<ImageDownload> {
  const transfer = new AbortController();
  const signal = AbortSignal.any([options.signal, transfer.signal]);
  const patience = { ms: options.stallMs ?? DEFAULT_STALL_MS, source, transfer };
  const opened = await patiently(patience, () => openSource(source, options.fetch, signal));
  const close = async (): Promise<void> => {
    transfer.abort();
    await opened.close();
  };
  try {
    const sizeBytes = await patiently(patience, () => measure(source, opened));
    const reader = opened.chunks[Symbol.asyncIterator]();
    const next = () => patiently(patience, () => reader.next());
    const head = await readHead(next);
    if (head.length < Math.min(HEAD_BYTES, sizeBytes)) throw cutOff(source, head.length, sizeBytes);
    const header = nameImage(source, () => inspectHeader(head, source.format, sizeBytes));
    return { sizeBytes, header, chunks: exactly(source, sizeBytes, head, next), close };
  } catch (error) {
    await close();
    throw error;
  }
}

function openSource(source: ImageSource, fetch: Fetch, signal: AbortSignal): Promise<OpenedSource> {
  const protocol = URL.canParse(source.url) ? new URL(source.url).protocol : null;
  if (protocol === 'file:') return openFileSource(source, signal);
  if (protocol === 'http:' || protocol === 'https:') return openHttpSource(source, fetch, signal);
  throw new ImageError('source', `image ${source.name}: its address is no http, https or file URL`);
}

/** Without a size the volume's capacity would be a guess, and a cut-off body could not be told from a whole one. */
async function measure(source: ImageSource, opened: OpenedSource): Promise<number> {
  const announced = opened.sizeBytes;
  const configured = source.sizeBytes ?? null;
  if (announced !== null && configured !== null && announced !== configured) {
    throw new ImageError(
      'size-mismatch',
      `image ${source.name}: its source announces ${announced} bytes, the configuration says ${configured}`,
    );
  }
  const size = announced ?? configured ?? (await opened.askSize());
  if (size !== null) return size;
  throw new ImageError(
    'unknown-size',
    `image ${source.name}: its server does not say how large it is; set sizeBytes in the configuration`,
  );
}

type Next = () => Promise<IteratorResult<Uint8Array, unknown>>;

/** At least HEAD_BYTES, or all of a shorter image. */
async function readHead(next: Next): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  while (length < HEAD_BYTES) {
    const { done, value } = await next();
    if (done === true) break;
    parts.push(value);
    length += value.length;
  }
  return Buffer.concat(parts, length);
}

async function* exactly(
  source: ImageSource,
  sizeBytes: number,
  head: Uint8Array,
  next: Next,
): AsyncGenerator<Uint8Array, void, undefined> {
  let received = 0;
  for (let chunk = head; ; ) {
    received += chunk.length;
    if (received > sizeBytes) {
      throw new ImageError('size-mismatch', `image ${source.name}: more than ${sizeBytes} bytes arrived`);
    }
    if (chunk.length > 0) yield chunk;
    const { done, value } = await next();
    if (done === true) break;
    chunk = value;
  }
  if (received < sizeBytes) throw cutOff(source, received, sizeBytes);
}

function cutOff(source: ImageSource, received: number, sizeBytes: number): ImageError {
  return new ImageError(
    'truncated',
    `image ${source.name}: it ended after ${received} of ${sizeBytes} bytes`,
  );
}

interface Patience {
  readonly ms: number;
  readonly source: ImageSource;
  readonly transfer: AbortController;
}

/** The clock runs only while the source is waited for: a host that writes slowly must not look like a dead server. */
async function patiently<T>({ ms, source, transfer }: Patience, work: () => Promise<T>): Promise<T> {
  const giveUp = () =>
    transfer.abort(new ImageError('stalled', `image ${source.name}: its source was silent for ${ms} ms`));
  const timer = setTimeout(giveUp, ms);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}

function nameImage<T>(source: ImageSource, inspect: () => T): T {
  try {
    return inspect();
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    throw new ImageError(error.reason, `image ${source.name}: ${error.message}`, { cause: error });
  }
}
