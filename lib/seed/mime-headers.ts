/**
 * A message's header fields as Python's email package reads them, which is what reads them in the guest. It is laxer than
 * RFC 2045, and where a message is not as the RFC wants it, two readers find two messages.
 */
import { mimeLines } from './mime-lines.ts';
import { withoutTrailing } from './trailing-characters.ts';

/** One field; the value as it stands, folded lines with their line ends, without the white space before it. */
export interface MimeField {
  /** Lower case. */
  readonly name: string;
  readonly value: string;
}

export interface MimeHeaders {
  readonly fields: readonly MimeField[];
  readonly bodyOffset: number;
  /** Whether every line belongs to a field and an empty line ends them: only then does every reader see the same. */
  readonly isRegular: boolean;
}

/** A parameter of a field, its value as it stands. */
interface MimeParameter {
  /** Lower case. */
  readonly name: string;
  readonly value: string;
}

const HEADER_LINE = /^(?:From |[!-9;-~]*:|[ \t])/;

export function splitHeaders(text: string): MimeHeaders {
  const fields: { name: string; value: string }[] = [];
  let offset = 0;
  let isRegular = true;
  let current: { name: string; value: string } | undefined;
  for (const line of mimeLines(text)) {
    if (/^[\r\n]/.test(line)) {
      return { fields: fields.map(trimmed), bodyOffset: offset + line.length, isRegular };
    }
    if (!HEADER_LINE.test(line)) {
      return { fields: fields.map(trimmed), bodyOffset: offset, isRegular: isRegular && line === '' };
    }
    offset += line.length;
    if (/^[ \t]/.test(line) && current !== undefined) {
      current.value += line;
    } else if (/^(?:[ \t:]|From )/.test(line)) {
      // Python skips such a line, and what is folded behind it.
      isRegular = false;
      current = undefined;
    } else {
      const colon = line.indexOf(':');
      current = {
        name: line.slice(0, colon).toLowerCase(),
        value: line.slice(colon + 1).replace(/^[ \t]+/, ''),
      };
      fields.push(current);
    }
  }
  return { fields: fields.map(trimmed), bodyOffset: offset, isRegular };
}

/** The first of a name is the one that counts in the guest. */
export function fieldOf({ fields }: MimeHeaders, name: string): string | undefined {
  return fields.find((field) => field.name === name)?.value;
}

/** Lower case, without parameters. */
export function mediaType(contentType: string): string {
  return (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
}

/** The boundary among the parameters, without its quotes. */
export function boundaryOf(contentType: string): string | undefined {
  return parametersOf(contentType)
    .find(({ name }) => name === 'boundary')
    ?.value.replace(/^"(.*)"$/s, (_, quoted: string) => quoted.replaceAll(/\\(.)/g, '$1'))
    .trimEnd();
}

/** Whether there is a boundary in the extended form of RFC 2231 (`boundary*=`, `boundary*0=`). */
export function hasExtendedBoundary(contentType: string): boolean {
  return parametersOf(contentType).some(({ name }) => name.startsWith('boundary*'));
}

/** A value in quotes may hold a semicolon, and nothing in quotes is a parameter. */
function parametersOf(contentType: string): readonly MimeParameter[] {
  const parameters: MimeParameter[] = [];
  for (const parameter of splitParameters(contentType).slice(1)) {
    const equals = parameter.indexOf('=');
    if (equals === -1) continue;
    const name = parameter.slice(0, equals).trim().toLowerCase();
    parameters.push({ name, value: parameter.slice(equals + 1).trim() });
  }
  return parameters;
}

function splitParameters(contentType: string): string[] {
  const pieces: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < contentType.length; at++) {
    const character = contentType[at];
    if (character === '\\' && isQuoted) {
      at++;
    } else if (character === '"') {
      isQuoted = !isQuoted;
    } else if (character === ';' && !isQuoted) {
      pieces.push(contentType.slice(start, at));
      start = at + 1;
    }
  }
  return [...pieces, contentType.slice(start)];
}

function trimmed({ name, value }: MimeField): MimeField {
  return { name, value: withoutTrailing(value, '\r\n') };
}
