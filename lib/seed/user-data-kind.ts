/**
 * What cloud-init will take user-data for, by its own rule: leading white space does not count, case does not count,
 * and of two headers that fit the longer one wins (`#cloud-config-archive` is no cloud-config).
 */
import { refusalAt } from './user-data-error.ts';

/** Header, kind and the content type a MIME part of that kind has. */
const HEADERS = [
  { header: '#cloud-config-archive', kind: 'archive', contentType: 'text/cloud-config-archive' },
  { header: '#cloud-config-jsonp', kind: 'jsonp', contentType: 'text/cloud-config-jsonp' },
  { header: '## template: jinja', kind: 'jinja', contentType: 'text/jinja2' },
  { header: '#cloud-boothook', kind: 'boothook', contentType: 'text/cloud-boothook' },
  { header: '#include-once', kind: 'include', contentType: 'text/x-include-once-url' },
  { header: '#part-handler', kind: 'part-handler', contentType: 'text/part-handler' },
  { header: '#cloud-config', kind: 'cloud-config', contentType: 'text/cloud-config' },
  { header: '#include', kind: 'include', contentType: 'text/x-include-url' },
  { header: '#!', kind: 'script', contentType: 'text/x-shellscript' },
] as const;

type HeaderKind = (typeof HEADERS)[number]['kind'];

export type UserDataKind = HeaderKind | 'mime' | 'empty';

/** User-data from its first significant character on, and what it is. */
export type ClassifiedUserData =
  | { readonly kind: 'empty' | 'mime'; readonly text: string; readonly skippedLines: 0 }
  | {
      readonly kind: HeaderKind;
      readonly contentType: string;
      readonly text: string;
      /** How many lines stood before the one with the header. */
      readonly skippedLines: number;
    };

/** What Python's str.lstrip() takes away. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: Python counts four separators of ASCII as white space
const LEADING_SPACE = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*/;

/** How far cloud-init looks for the word that makes user-data a MIME message, whatever its first line says. */
const MIME_WINDOW_BYTES = 4096;

/** @throws UserDataError for user-data that cloud-init would ignore, with the likely reason */
export function classifyUserData(text: string): ClassifiedUserData {
  const skipped = LEADING_SPACE.exec(text)?.[0].length ?? 0;
  const content = text.slice(skipped);
  if (content === '') {
    return { kind: 'empty', text: content, skippedLines: 0 };
  }
  const match = matchHeader(content);
  const mimeMark = mimeMarkAt(content);
  if (match === undefined) {
    if (mimeMark === -1) {
      throw refusalAt(text, skipped, unrecognised(content));
    }
    return { kind: 'mime', text, skippedLines: 0 };
  }
  // Every other kind is wrapped into a message of ours, where the word means nothing.
  if (match.kind === 'cloud-config' && mimeMark !== -1) {
    throw refusalAt(
      text,
      skipped + mimeMark,
      `“MIME-Version:” in the first ${MIME_WINDOW_BYTES} bytes makes cloud-init read the whole document as a MIME ` +
        'message; move it further down',
    );
  }
  const skippedLines = text.slice(0, skipped).split('\n').length - 1;
  return { kind: match.kind, contentType: match.contentType, text: content, skippedLines };
}

/** Whether cloud-init knows this beginning of a text, white space before it not counted. */
export function hasKnownHeader(text: string): boolean {
  return matchHeader(text.replace(LEADING_SPACE, '')) !== undefined;
}

function matchHeader(content: string): (typeof HEADERS)[number] | undefined {
  const start = content.slice(0, 64).toLowerCase();
  return HEADERS.find(({ header }) => start.startsWith(header));
}

/** Index of the word in the text, or -1 when it does not stand in the window. */
function mimeMarkAt(content: string): number {
  const window = Buffer.from(content.slice(0, MIME_WINDOW_BYTES), 'utf8').subarray(0, MIME_WINDOW_BYTES);
  return window.toString('utf8').toLowerCase().indexOf('mime-version:');
}

function unrecognised(content: string): string {
  const [line = ''] = content.split('\n', 1);
  if (/^#+\s*template:/i.test(line)) {
    return 'a template header that cloud-init does not know; it must read “## template: jinja”';
  }
  if (/^#?\s*cloud[-_ ]?(?:config|init)/i.test(line)) {
    return 'not the header of a cloud-config; the first line must read “#cloud-config”';
  }
  const trimmed = content.trimEnd();
  if (content.length >= 16 && /^[A-Za-z0-9+/\s]+={0,2}$/.test(trimmed) && !/[ \t]/.test(trimmed)) {
    return 'looks like base64, which cloud-init does not decode here; say so with cloudInitEncoding: base64';
  }
  if (/^[\w-]+:(?:\s|$)/.test(line) || line.startsWith('---') || line.startsWith('{')) {
    return 'cloud-init ignores a document without a header; the first line of a cloud-config must read “#cloud-config”';
  }
  return 'cloud-init knows no user-data that begins like this (#cloud-config, #!, #include, “## template: jinja”, MIME …)';
}
