/**
 * The parts of a MIME message as Python's parser finds them, decoded as far as cloud-init decodes them. For looking at
 * what a message brings; what goes to the guest is the message as it came.
 */
import { boundaryOf, splitHeaders } from './mime-message.ts';

export interface MimeLeaf {
  /** Lower case, without parameters. */
  readonly contentType: string;
  /** Null where the transfer encoding is not one that is read here. */
  readonly content: string | null;
}

/** Deeper nesting is no user-data; its inner message is then a part of a type that nobody knows. */
const MAX_DEPTH = 20;

/** @param text a message that `checkMimeMessage` has accepted */
export function mimeLeaves(text: string, depth = 0): MimeLeaf[] {
  const { headers, bodyOffset } = splitHeaders(text);
  const contentType = headers.get('content-type') ?? 'text/plain';
  const type = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
  const body = text.slice(bodyOffset);
  const boundary = boundaryOf(contentType);
  if (type.startsWith('multipart/') && boundary !== undefined && depth < MAX_DEPTH) {
    return splitParts(body, boundary).flatMap((part) => mimeLeaves(part, depth + 1));
  }
  return [{ contentType: type, content: decode(body, headers.get('content-transfer-encoding') ?? '7bit') }];
}

/** What stands between the lines with the boundary; the line end before one belongs to it (RFC 2046, 5.1.1). */
function splitParts(body: string, boundary: string): string[] {
  const parts: string[] = [];
  let current: string[] | null = null;
  for (const line of body.split(/(?<=\n)/)) {
    const content = line.trimEnd();
    if (content !== `--${boundary}` && content !== `--${boundary}--`) {
      current?.push(line);
      continue;
    }
    if (current !== null) parts.push(current.join('').replace(/\r?\n$/, ''));
    if (content.endsWith(`${boundary}--`)) return parts;
    current = [];
  }
  return parts;
}

function decode(body: string, encoding: string): string | null {
  switch (encoding.trim().toLowerCase()) {
    case '7bit':
    case '8bit':
    case 'binary':
      return body;
    case 'base64':
      return Buffer.from(body, 'base64').toString('utf8');
    case 'quoted-printable':
      return decodeQuotedPrintable(body);
    default:
      return null;
  }
}

/** RFC 2045, 6.7. */
function decodeQuotedPrintable(body: string): string {
  const joined = body.replaceAll(/[ \t]+(?=\r?\n|$)/g, '').replaceAll(/=\r?\n/g, '');
  const bytes = joined.replaceAll(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
