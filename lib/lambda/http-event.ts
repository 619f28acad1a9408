/**
 * An API Gateway HTTP API event, payload 2.0, as the request that was sent. Nothing in it is trusted to have its
 * documented type: an event can also be typed in by hand, and no input may end in a 500.
 */
import type { Fault } from '../provider/provider-error.ts';
import { RefusedRequest } from './refused-request.ts';

export interface HttpRequest {
  readonly method: string;
  readonly pathParameters: Readonly<Record<string, unknown>>;
  readonly rawPath: string;
  /** Decoded, in order, duplicates kept; null for a name or value whose percent-encoding is broken. */
  readonly query: readonly { readonly name: string; readonly value: string | null }[];
  body(): Uint8Array;
  /** Field names are case-insensitive; duplicates were joined with commas by the gateway. */
  header(name: string): string | undefined;
}

/** Lambda's own limit is 6 MB for the whole event, of which base64 and JSON escapes take their part. */
export const MAX_BODY_BYTES = 2 * 1024 * 1024;

/** What tells an HTTP event from bare input: `version: "2.0"` and `requestContext.http`. */
export function isHttpEvent(event: unknown): event is Record<string, unknown> {
  return isObject(event) && event['version'] === '2.0' && isObject(event['requestContext'])
    ? isObject(event['requestContext']['http'])
    : false;
}

export function readHttpEvent(event: Readonly<Record<string, unknown>>): HttpRequest {
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(isObject(event['headers']) ? event['headers'] : {})) {
    if (typeof value === 'string') headers.set(name.toLowerCase(), value);
  }
  const http = isObject(event['requestContext']) ? event['requestContext']['http'] : undefined;
  return {
    method: isObject(http) && typeof http['method'] === 'string' ? http['method'] : '',
    pathParameters: isObject(event['pathParameters']) ? event['pathParameters'] : {},
    rawPath: typeof event['rawPath'] === 'string' ? event['rawPath'] : '',
    query: readQuery(event),
    body: () => readBody(event),
    header: (name) => headers.get(name.toLowerCase()),
  };
}

/**
 * The path segments of these names, percent-decoded once: the gateway hands path parameters on as they were sent. A
 * function URL matches no route and fills in no parameters; there the segments are the path's last ones.
 * @param fixed how many fixed segments follow them in the path
 */
export function pathSegments(
  request: HttpRequest,
  names: readonly string[],
  fixed = 0,
): { readonly values: ReadonlyMap<string, string>; readonly faults: readonly Fault[] } {
  const values = new Map<string, string>();
  const faults: Fault[] = [];
  const last = request.rawPath
    .split('/')
    .slice(1)
    .slice(-names.length - fixed);
  for (const [index, name] of names.entries()) {
    const given = Object.hasOwn(request.pathParameters, name) ? request.pathParameters[name] : last[index];
    const value = typeof given === 'string' ? percentDecode(given) : null;
    if (value === null)
      faults.push({ pointer: `{${name}}`, detail: 'is missing or not percent-encoded UTF-8' });
    else if (value === '' || value.includes('/'))
      faults.push({ pointer: `{${name}}`, detail: 'must be one segment' });
    else values.set(name, value);
  }
  return { values, faults };
}

/** The raw string tells `a=1,2` from `a=1&a=2`, which `queryStringParameters` joins. */
function readQuery(event: Readonly<Record<string, unknown>>): HttpRequest['query'] {
  const { rawQueryString: raw, queryStringParameters: parsed } = event;
  if (typeof raw === 'string') {
    return raw
      .split('&')
      .filter((part) => part !== '')
      .map((part) => {
        const equals = part.indexOf('=');
        const [name, value] = equals < 0 ? [part, ''] : [part.slice(0, equals), part.slice(equals + 1)];
        const decodedName = formDecode(name);
        return { name: decodedName ?? name, value: decodedName === null ? null : formDecode(value) };
      });
  }
  return Object.entries(isObject(parsed) ? parsed : {}).map(([name, value]) => ({
    name,
    value: typeof value === 'string' ? value : null,
  }));
}

function readBody(event: Readonly<Record<string, unknown>>): Uint8Array {
  const { body } = event;
  if (body === undefined || body === null) return new Uint8Array(0);
  if (typeof body !== 'string') throw new RefusedRequest([{ pointer: '', detail: 'the body must be text' }]);
  if (event['isBase64Encoded'] !== true) return bounded(Buffer.from(body, 'utf8'));
  // Buffer skips what is not base64, which would turn a damaged body into another one.
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(body) || body.length % 4 !== 0) {
    throw new RefusedRequest([{ pointer: '', detail: 'the body is not base64, as the event says it is' }]);
  }
  return bounded(Buffer.from(body, 'base64'));
}

function bounded(body: Uint8Array): Uint8Array {
  if (body.byteLength <= MAX_BODY_BYTES) return body;
  throw new RefusedRequest([{ pointer: '', detail: `the body is longer than ${MAX_BODY_BYTES} bytes` }], {
    status: 413,
    title: 'The body is too long',
  });
}

function formDecode(text: string): string | null {
  return percentDecode(text.replaceAll('+', ' '));
}

function percentDecode(text: string): string | null {
  try {
    const decoded = decodeURIComponent(text);
    return decoded.isWellFormed() ? decoded : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
