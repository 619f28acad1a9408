/**
 * The parts of a MIME message as Python's parser finds them, decoded as far as cloud-init decodes them. For looking at
 * what a message brings; what goes to the guest is the message as it came. Python repairs what is damaged in ways of its
 * own, which differ by its version, so a message that needs it is refused and not followed.
 */
import { boundaryOf, fieldOf, type MimeHeaders, mediaType, splitHeaders } from './mime-headers.ts';
import { boundaryLines } from './mime-lines.ts';
import { type ReadingBudget, TOO_MANY_PARTS } from './reading-budget.ts';
import { refusalAt, UserDataError } from './user-data-error.ts';

export interface MimeLeaf {
  /** Lower case, without parameters. */
  readonly contentType: string;
  readonly content: string;
}

/** Deeper nesting is no user-data, and each level is a pass over what it holds. */
const MAX_DEPTH = 5;

/** Line ends are LF or CRLF; Python and others disagree about the rest. */
const NOT_PLAIN = /[^\t\r\n\x20-\x7e]|\r(?!\n)/;

const ENCODINGS: readonly string[] = ['7bit', '8bit', 'binary', 'base64', 'quoted-printable'];

/**
 * A type and parameters without escapes, comments, semicolons in quotes or the extensions of RFC 2231. The white space and the
 * semicolon that may end it are taken off before.
 */
const CONTENT_TYPE =
  /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+(?:\s*;\s*[a-z0-9-]+=(?:"[^"\\;<>\r\n]*"|[\w.+:/'=?-]+))*$/i;

const BOUNDARY = /^[\w'()+,./:=? -]*[\w'()+,./:=?-]$/;

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** @throws UserDataError for a message that not every reader reads alike */
export function mimeLeaves(text: string, budget: ReadingBudget): MimeLeaf[] {
  const odd = text.search(NOT_PLAIN);
  if (odd !== -1) {
    throw refusalAt(text, odd, undecided('a control character, or one beyond ASCII'));
  }
  return leaves(text, 0, budget);
}

function leaves(text: string, depth: number, budget: ReadingBudget): MimeLeaf[] {
  const headers = splitHeaders(text);
  const contentType = checkHeaders(headers);
  const encoding = fieldOf(headers, 'content-transfer-encoding')?.toLowerCase() ?? '7bit';
  const type = mediaType(contentType);
  const body = text.slice(headers.bodyOffset);
  if (!type.startsWith('multipart/')) {
    return [{ contentType: type, content: decode(body, encoding) }];
  }
  const boundary = boundaryOf(contentType);
  if (depth >= MAX_DEPTH || type === 'multipart/digest' || !boundary || !BOUNDARY.test(boundary)) {
    refuse('a multipart/digest, a boundary of odd characters, or messages nested too deep');
  }
  return splitParts(body, boundary, budget).flatMap((part) => leaves(part, depth + 1, budget));
}

/** @returns the content type */
function checkHeaders(headers: MimeHeaders): string {
  if (!headers.isRegular) {
    refuse('a line among the headers that is none, or no empty line behind them');
  }
  for (const name of ['content-type', 'content-transfer-encoding']) {
    if (headers.fields.filter((field) => field.name === name).length > 1) refuse(`${name} stands twice`);
  }
  const contentType = fieldOf(headers, 'content-type') ?? 'text/plain';
  const names = [...contentType.matchAll(/;\s*([^=;\s]+)=/g)].map(([, name = '']) => name.toLowerCase());
  if (
    !CONTENT_TYPE.test(contentType.trimEnd().replace(/;$/, '').trimEnd()) ||
    new Set(names).size < names.length
  ) {
    refuse('a content-type that is not plainly a type with its parameters');
  }
  const encoding = fieldOf(headers, 'content-transfer-encoding')?.toLowerCase() ?? '7bit';
  if (!ENCODINGS.includes(encoding)) {
    refuse(`a content-transfer-encoding that is not exactly one of ${ENCODINGS.join(', ')}`);
  }
  return contentType;
}

/** What stands between the lines with the boundary; the line end before one belongs to it (RFC 2046, 5.1.1). */
function splitParts(body: string, boundary: string, budget: ReadingBudget): string[] {
  const parts: string[] = [];
  let partStart: number | null = null;
  for (const { start, end, isClosing } of boundaryLines(body, boundary)) {
    // Python takes the second of two such lines for nothing, even one that closes.
    if (start === partStart) refuse('two lines with a boundary and nothing between them');
    if (partStart !== null) {
      if (!budget.spend('parts')) throw new UserDataError(TOO_MANY_PARTS);
      parts.push(withoutLineEnd(body.slice(partStart, start)));
    }
    if (isClosing) {
      if (partStart === null) break;
      return parts;
    }
    partStart = end;
  }
  return refuse('a multipart message without a part, or without its closing boundary');
}

function withoutLineEnd(text: string): string {
  return text.slice(0, text.endsWith('\r\n') ? -2 : text.endsWith('\n') ? -1 : text.length);
}

function decode(body: string, encoding: string): string {
  if (encoding === 'base64') {
    const compact = body.replaceAll(/\r?\n/g, '');
    if (!BASE64.test(compact)) refuse('base64 with other characters in it, or of an impossible length');
    return Buffer.from(compact, 'base64').toString('utf8');
  }
  return encoding === 'quoted-printable' ? decodeQuotedPrintable(body) : body;
}

/** RFC 2045, 6.7. */
function decodeQuotedPrintable(body: string): string {
  if (/[ \t](?:\r?\n|$)|=(?![0-9A-Fa-f]{2}|\r?\n)/.test(body)) {
    refuse('quoted-printable with blanks at the end of a line, or a = that begins nothing');
  }
  const joined = body.replaceAll(/=\r?\n/g, '');
  const bytes = joined.replaceAll(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

function undecided(what: string): string {
  return `${what}: which parts the message has is then known only in the guest, and seed.scrub needs to know it before`;
}

function refuse(what: string): never {
  throw new UserDataError(undecided(what));
}
