/**
 * Where a text stops being JSON (RFC 8259). Only asked once `JSON.parse` has refused it; iterative, so that a body of
 * a million brackets costs no stack.
 */

export interface JsonFault {
  /** Both counted from 1; columns in UTF-16 units, as editors show them. */
  readonly line: number;
  readonly column: number;
  readonly expected: string;
}

type Expecting = 'value' | 'value-or-end' | 'name' | 'name-or-end' | 'colon' | 'comma-or-end';

const WORDS: Record<Expecting, string> = {
  value: 'a value was expected',
  'value-or-end': 'a value or ] was expected',
  name: 'a name in double quotes was expected',
  'name-or-end': 'a name in double quotes or } was expected',
  colon: 'a colon was expected',
  'comma-or-end': 'a comma or the closing bracket was expected',
};

const SCALAR = /(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9A-Za-z.+-])/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** Null when the text is JSON. */
export function locateJsonFault(text: string): JsonFault | null {
  const closers: ('}' | ']')[] = [];
  let expecting: Expecting = 'value';
  let at = skipSpace(text, 0);

  while (at < text.length || expecting !== 'comma-or-end' || closers.length > 0) {
    const char = text[at];
    if (char === undefined) return faultAt(text, at, `the text ends here; ${WORDS[expecting]}`);
    const closer = closers.at(-1);
    let next: number | null = null;

    if (char === closer && expecting.endsWith('-or-end')) {
      closers.pop();
      expecting = 'comma-or-end';
      next = at + 1;
    } else if (expecting === 'comma-or-end') {
      if (closer === undefined) return faultAt(text, at, 'the text goes on after its value');
      if (char === ',') {
        expecting = closer === '}' ? 'name' : 'value';
        next = at + 1;
      }
    } else if (expecting === 'colon') {
      if (char === ':') {
        expecting = 'value';
        next = at + 1;
      }
    } else if (char === '"') {
      const end = stringEnd(text, at);
      if (!end.ok) return faultAt(text, end.at, end.expected);
      expecting = expecting.startsWith('name') ? 'colon' : 'comma-or-end';
      next = end.at;
    } else if (expecting.startsWith('value')) {
      if (char === '{' || char === '[') {
        closers.push(char === '{' ? '}' : ']');
        expecting = char === '{' ? 'name-or-end' : 'value-or-end';
        next = at + 1;
      } else {
        SCALAR.lastIndex = at;
        if (SCALAR.test(text)) {
          expecting = 'comma-or-end';
          next = SCALAR.lastIndex;
        }
      }
    }

    if (next === null) return faultAt(text, at, WORDS[expecting]);
    at = skipSpace(text, next);
  }
  return null;
}

function stringEnd(
  text: string,
  start: number,
): { ok: true; at: number } | { ok: false; at: number; expected: string } {
  let at = start + 1;
  while (at < text.length) {
    const char = text[at] ?? '';
    if (char === '"') return { ok: true, at: at + 1 };
    if (char < ' ') return { ok: false, at, expected: 'a control character in a string must be escaped' };
    if (char !== '\\') {
      at += 1;
      continue;
    }
    ESCAPE.lastIndex = at;
    if (!ESCAPE.test(text)) return { ok: false, at, expected: 'this is not an escape that JSON knows' };
    at = ESCAPE.lastIndex;
  }
  return { ok: false, at, expected: 'the text ends inside a string' };
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (at < text.length && ' \t\r\n'.includes(text[at] ?? '')) at += 1;
  return at;
}

function faultAt(text: string, offset: number, expected: string): JsonFault {
  const before = text.slice(0, offset).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1, expected };
}
