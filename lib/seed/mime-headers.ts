/**
 * A message's header fields as Python's email package reads them, which is what reads them in the guest. It is laxer than
 * RFC 2045, and where a message is not as the RFC wants it, two readers find two messages.
 */

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

const HEADER_LINE = /^(?:From |[!-9;-~]*:|[ \t])/;

/** Lines with their ends. Python ends a line at a carriage return of its own, too. */
export function mimeLines(text: string): string[] {
  return text.split(/(?<=\n|\r(?!\n))/);
}

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

/** The boundary among the parameters; one in quotes may hold a semicolon, and nothing in quotes is a parameter. */
export function boundaryOf(contentType: string): string | undefined {
  const parameters = contentType.match(/(?:[^;"]|"(?:[^"\\]|\\.)*"?)+/gs) ?? [];
  for (const parameter of parameters.slice(1)) {
    const match = /^\s*boundary\s*=\s*(.*?)\s*$/is.exec(parameter);
    if (match?.[1] !== undefined) {
      return match[1]
        .replace(/^"(.*)"$/s, (_, quoted: string) => quoted.replaceAll(/\\(.)/g, '$1'))
        .trimEnd();
    }
  }
  return undefined;
}

function trimmed({ name, value }: MimeField): MimeField {
  return { name, value: value.replace(/[\r\n]+$/, '') };
}
