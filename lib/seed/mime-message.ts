/**
 * The MIME side: checks a message that came as user-data as far as cloud-init would trip over it, and writes the
 * message that carries user-data of any kind together with the guest agent's part.
 */
import { createHash } from 'node:crypto';
import { boundaryOf, fieldOf, hasExtendedBoundary, mediaType, splitHeaders } from './mime-headers.ts';
import { boundaryLines } from './mime-lines.ts';
import { refusalAt } from './user-data-error.ts';

/**
 * Appends our lists to the user's and leaves every other value the user's own. Without it cloud-init's default
 * replaces the user's lists.
 */
const MERGE_TYPE = 'list(append)+dict(no_replace,recurse_list)+str()';

/**
 * @throws UserDataError for a message without headers at its first byte, with text that cloud-init's parser damages,
 * or with a multipart body that never ends (not seen where the boundary stands only in the extended form of RFC 2231)
 */
export function checkMimeMessage(text: string): void {
  if (!/^(?:From |[!-9;-~]+:)/.test(text)) {
    throw refusalAt(text, 0, 'a MIME message begins with its headers at the very first character');
  }
  const foreign = text.search(/[^\p{ASCII}]/u);
  if (foreign !== -1) {
    throw refusalAt(
      text,
      foreign,
      'cloud-init damages characters beyond ASCII in a MIME message; encode the part as base64 or quoted-printable',
    );
  }
  const headers = splitHeaders(text);
  const contentType = fieldOf(headers, 'content-type') ?? 'text/plain';
  if (!mediaType(contentType).startsWith('multipart/')) return;
  const boundary = boundaryOf(contentType);
  // A boundary in the extended form is left to the guest, which decodes it; beside a plain one it does not count.
  if (boundary !== undefined || !hasExtendedBoundary(contentType)) {
    checkBoundaries(text, headers.bodyOffset, boundary);
  }
}

/** User-data as it came plus the agent's cloud-config, as one message. The same input gives the same bytes. */
export function buildMultipart(part: MimePart, agentConfig: string): string {
  const rendered = renderPart(part);
  // No line of the part can be this boundary: it would have to contain its own digest.
  const boundary = `kvmfn-${createHash('sha256').update(rendered).digest('hex').slice(0, 32)}`;
  const agentPart = [
    'Content-Type: text/cloud-config; charset="us-ascii"',
    `Merge-Type: ${MERGE_TYPE}`,
    '',
    agentConfig,
  ].join('\n');
  return [
    `Content-Type: multipart/mixed; boundary="${boundary}"`,
    'MIME-Version: 1.0',
    '',
    `--${boundary}`,
    rendered,
    `--${boundary}`,
    agentPart,
    `--${boundary}--`,
    '',
  ].join('\n');
}

export type MimePart =
  /** A whole message, its own headers included: nested as it is. */
  { readonly message: string } | { readonly contentType: string; readonly content: string };

function renderPart(part: MimePart): string {
  if ('message' in part) {
    return part.message;
  }
  // Python's parser keeps printable ASCII lines byte by byte and damages some of the rest, so the rest is encoded.
  const isPlain = /^[\t\n\x20-\x7e]*$/.test(part.content);
  const headers = [`Content-Type: ${part.contentType}; charset="utf-8"`];
  if (isPlain) {
    return [...headers, '', part.content].join('\n');
  }
  const encoded = Buffer.from(part.content, 'utf8').toString('base64');
  const lines = encoded.match(/.{1,76}/g) ?? [];
  return [...headers, 'Content-Transfer-Encoding: base64', '', ...lines].join('\n');
}

function checkBoundaries(text: string, bodyOffset: number, boundary: string | undefined): void {
  if (!boundary) {
    throw refusalAt(text, 0, 'a multipart message names the boundary of its parts in Content-Type');
  }
  const lines = [...boundaryLines(text.slice(bodyOffset), boundary)];
  const first = lines.findIndex(({ isClosing }) => !isClosing);
  const last = lines.findIndex(({ isClosing }) => isClosing);
  if (first === -1) {
    throw refusalAt(text, bodyOffset, 'a multipart message without a part: no line with its boundary');
  }
  if (last < first) {
    throw refusalAt(text, text.length, 'the multipart message is cut off: its closing boundary is missing');
  }
}
