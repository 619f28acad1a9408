/** JSON that somebody else wrote: it may be none, and of any shape. */

/** Undefined for what is not JSON: the parser's own message quotes what it was given. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
