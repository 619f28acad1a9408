/**
 * A JSON request body, from bytes to a value that is safe to hand on. `JSON.parse` itself names the place of a
 * mistake only sometimes and quotes the text around it, which may be somebody's user-data: the place is found here.
 */
import type { Fault } from '../provider/provider-error.ts';
import type { HttpRequest } from './http-event.ts';
import { locateJsonFault } from './json-fault.ts';
import { RefusedRequest } from './refused-request.ts';

/** More levels than any network-config has; fewer than what walks a value recursively can take. */
const MAX_DEPTH = 32;

/** @throws RefusedRequest 415 for another content type, 400 for text that is not JSON, with line and column. */
export function readJsonBody(request: HttpRequest): unknown {
  requireJson(request.header('content-type'));
  const bytes = request.body();
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new RefusedRequest([{ pointer: '', detail: 'the body is not UTF-8' }]);
  }
  if (text.trim() === '')
    throw new RefusedRequest([{ pointer: '', detail: 'the body is empty; a JSON object is needed' }]);
  try {
    return JSON.parse(text);
  } catch {
    const fault = locateJsonFault(text);
    const place = fault === null ? '' : `: line ${fault.line}, column ${fault.column}: ${fault.expected}`;
    throw new RefusedRequest([{ pointer: '', detail: `the body is not JSON${place}` }]);
  }
}

/** A route without a body refuses one: whoever sends `{"uid": …}` with a DELETE relies on it being read. */
export function requireNoBody(request: HttpRequest): readonly Fault[] {
  if (Buffer.from(request.body()).toString('utf8').trim() === '') return [];
  return [{ pointer: '', detail: 'this call takes no body; what it takes goes into the query' }];
}

/**
 * What a schema does not see: keys that would write to a prototype, strings that UTF-8 cannot carry, nesting that
 * would exhaust the stack of whatever walks the value next. Iterative, because it is what stands before those.
 */
export function structuralFaults(input: unknown): readonly Fault[] {
  const faults: Fault[] = [];
  const waiting = [{ value: input, pointer: '', depth: 0 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, pointer, depth } = next;
    if (typeof value === 'string' && !value.isWellFormed()) {
      faults.push({ pointer, detail: 'is not well-formed Unicode (a lone surrogate)' });
    }
    if (typeof value !== 'object' || value === null) continue;
    if (depth >= MAX_DEPTH) {
      faults.push({ pointer, detail: `is nested deeper than ${MAX_DEPTH} levels` });
      continue;
    }
    for (const [key, inner] of Object.entries(value)) {
      const place = `${pointer}/${pointerToken(key)}`;
      if (key === '__proto__') faults.push({ pointer: place, detail: 'is not an allowed name' });
      else if (!key.isWellFormed())
        faults.push({ pointer: place.toWellFormed(), detail: 'is not a well-formed name' });
      else waiting.push({ value: inner, pointer: place, depth: depth + 1 });
    }
  }
  return faults;
}

/** RFC 6901, section 3. */
export function pointerToken(key: PropertyKey): string {
  return String(key).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** A missing type is taken for JSON (RFC 9110, 8.3 leaves it to the recipient); a form, curl's default, is not. */
function requireJson(contentType: string | undefined): void {
  if (contentType === undefined || contentType.trim() === '') return;
  const [type = '', ...parameters] = contentType
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  const isJson = /^application\/(?:json|[a-z0-9.!#$&^_-]+\+json)$/.test(type);
  const charsets = parameters.filter((parameter) => parameter.startsWith('charset='));
  if (isJson && charsets.every((charset) => /^charset="?utf-?8"?$/.test(charset))) return;
  throw new RefusedRequest([{ pointer: '', detail: 'the content type must be application/json, in UTF-8' }], {
    status: 415,
    title: 'The content type is not supported',
    headers: { accept: 'application/json' },
  });
}
