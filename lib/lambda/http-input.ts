/** The HTTP spelling of each request function's bare input: body and header, path and query. */
import type { Fault } from '../provider/provider-error.ts';
import type { HttpInput } from './api-function.ts';
import { type HttpRequest, pathSegments } from './http-event.ts';
import { readJsonBody, requireNoBody } from './json-body.ts';
import { requestUid } from './request-schema.ts';

/** `POST /instances`: the body is the input; the `Idempotency-Key` header is another way to write its uid. */
export function createFromHttp(request: HttpRequest): HttpInput {
  const body = readJsonBody(request);
  const faults: Fault[] = queryFaults(request, {}).faults;
  const key = request.header('idempotency-key');
  let input = body;
  if (key !== undefined && isObject(body)) {
    if (!requestUid.safeParse(key).success) {
      faults.push({
        pointer: '/uid',
        detail: 'must be 1–128 printable ASCII characters (the Idempotency-Key header)',
      });
    } else if (!Object.hasOwn(body, 'uid')) {
      input = { ...body, uid: key };
    } else if (body['uid'] !== key) {
      faults.push({ pointer: '/uid', detail: 'differs from the Idempotency-Key header' });
    }
  }
  return { input, faults, place: (pointer) => pointer };
}

/** `GET` and `DELETE /instances/{host}/{name}`, the query carrying the rest of the input. */
export function instanceFromHttp(request: HttpRequest, query: QueryFields): HttpInput {
  const segments = pathSegments(request, ['host', 'name']);
  const { fields, faults } = queryFaults(request, query);
  return {
    input: { id: `${segments.values.get('host')}/${segments.values.get('name')}`, ...fields },
    faults: [...segments.faults, ...faults, ...requireNoBody(request)],
    // The host's part takes any text, so what is wrong with an id is its name.
    place: (pointer) => (pointer === '/id' ? '{name}' : queryPlace(pointer)),
  };
}

/** `GET /instances`: the query is the input. */
export function listFromHttp(request: HttpRequest): HttpInput {
  const { fields, faults } = queryFaults(request, {
    host: 'text',
    label: 'list',
    limit: 'number',
    cursor: 'text',
  });
  return { input: fields, faults: [...faults, ...requireNoBody(request)], place: queryPlace };
}

/** `GET /hosts/{host}/health`. */
export function healthFromHttp(request: HttpRequest): HttpInput {
  const segments = pathSegments(request, ['host'], 1);
  return {
    input: { host: segments.values.get('host') },
    faults: [...segments.faults, ...queryFaults(request, {}).faults, ...requireNoBody(request)],
    place: () => '{host}',
  };
}

/** What each known query parameter is in the bare input. */
export type QueryFields = Readonly<Record<string, 'text' | 'number' | 'list'>>;

function queryFaults(
  request: HttpRequest,
  known: QueryFields,
): { fields: Record<string, unknown>; faults: Fault[] } {
  const fields = new Map<string, unknown>();
  const faults: Fault[] = [];
  for (const { name, value } of request.query) {
    const pointer = `?${name}`;
    const kind = Object.hasOwn(known, name) ? known[name] : undefined;
    const earlier = fields.get(name);
    if (kind === undefined) faults.push({ pointer, detail: 'is not a known query parameter' });
    else if (value === null) faults.push({ pointer, detail: 'is not percent-encoded UTF-8' });
    else if (kind === 'list') fields.set(name, [...(Array.isArray(earlier) ? earlier : []), value]);
    else if (earlier !== undefined) faults.push({ pointer, detail: 'is given more than once' });
    // Text that is no number is left for the schema, which says what the number must be.
    else fields.set(name, kind === 'number' && /^[0-9]{1,15}$/.test(value) ? Number(value) : value);
  }
  return { fields: Object.fromEntries(fields), faults };
}

/** `/label/1` → `?label`. */
function queryPlace(pointer: string): string {
  return `?${pointer.split('/')[1] ?? ''}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
