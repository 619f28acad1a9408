/**
 * An image from a web server: one GET whose body is streamed, and, where the answer does not say how long it is, a
 * HEAD and a one-byte range request that ask for nothing else. Sources: RFC 9110 sections 8.6, 9.3.2 and 14.
 */
import { ImageError } from './image-error.ts';
import { displayUrl, type ImageSource } from './image-source.ts';
import type { OpenedSource } from './opened-source.ts';

export type Fetch = typeof globalThis.fetch;

/** Compressed in transit, the length would be that of the compressed body, and the bytes not those of the checksum. */
const AS_STORED = { 'accept-encoding': 'identity' } as const;

/** Statuses below 500 that say "not now": request timeout, too early, too many requests. */
const PASSING_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/** @throws ImageError `unreachable`, `refused`, `unavailable` or `format`; the signal's reason when it was aborted */
export async function openHttpSource(
  source: ImageSource,
  fetch: Fetch,
  signal: AbortSignal,
): Promise<OpenedSource> {
  const response = await request(source, fetch, { headers: AS_STORED, signal });
  const { body } = response;
  if (response.status !== 200 || body === null) {
    await discard(response);
    throw statusError(source, response.status);
  }
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    await discard(response);
    throw new ImageError('format', `image ${source.name}: its server sends it ${encoding}-compressed`);
  }
  return {
    sizeBytes: wholeNumber(response.headers.get('content-length')),
    chunks: readBody(source, body, signal),
    close: () => discard(response),
    askSize: () => askSize(source, fetch, signal),
  };
}

/** The length by HEAD, else by the total in the Content-Range of a one-byte request, else null. */
async function askSize(source: ImageSource, fetch: Fetch, signal: AbortSignal): Promise<number | null> {
  const head = await request(source, fetch, { method: 'HEAD', headers: AS_STORED, signal });
  await discard(head);
  const length = head.status === 200 ? wholeNumber(head.headers.get('content-length')) : null;
  if (length !== null) return length;

  const range = await request(source, fetch, { headers: { ...AS_STORED, range: 'bytes=0-0' }, signal });
  await discard(range);
  if (range.status !== 206) return null;
  return wholeNumber(/^bytes\s+0-0\/(\d+)$/.exec(range.headers.get('content-range') ?? '')?.[1] ?? null);
}

async function request(source: ImageSource, fetch: Fetch, init: RequestInit): Promise<Response> {
  try {
    return await fetch(source.url, { redirect: 'follow', ...init });
  } catch (cause) {
    init.signal?.throwIfAborted();
    const why = errorCode(cause);
    throw new ImageError(
      'unreachable',
      `image ${source.name}: ${displayUrl(source)} cannot be reached${why === null ? '' : ` (${why})`}`,
      { cause },
    );
  }
}

async function* readBody(
  source: ImageSource,
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* body;
  } catch (cause) {
    signal.throwIfAborted();
    // A connection that ends before Content-Length or before the terminator of a chunked body arrives here.
    throw new ImageError('truncated', `image ${source.name}: the connection ended in the middle`, { cause });
  }
}

/** A body that its reader holds is cancelled by the reader; one that failed has nothing left to release. */
async function discard(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined);
}

function statusError(source: ImageSource, status: number): ImageError {
  const passing = status >= 500 || PASSING_STATUSES.has(status);
  return new ImageError(
    passing ? 'unavailable' : 'refused',
    `image ${source.name}: ${displayUrl(source)} answered ${status}`,
  );
}

function wholeNumber(text: string | null): number | null {
  if (text === null || !/^\d+$/.test(text.trim())) return null;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : null;
}

/** fetch hides the network's error (`ECONNREFUSED`, `CERT_HAS_EXPIRED`) in the cause of its own. */
function errorCode(error: unknown): string | null {
  const { cause } = error instanceof Error ? error : {};
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : null;
}
