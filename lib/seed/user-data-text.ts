/**
 * User-data on its way from a request to text: base64 and gzip undone, the encoding checked. cloud-init on NoCloud
 * decodes no base64 and reads UTF-8 only, so whatever is left over here would be ignored in the guest without a word.
 */
import { gunzipSync } from 'node:zlib';
import { refusalAt, UserDataError } from './user-data-error.ts';

/**
 * The largest user-data that is taken, also after decompression: a few kilobytes of gzip can unfold to gigabytes, and
 * a cloud-config of this size takes seconds to parse already. (The large clouds stop at 16 to 64 KiB.)
 */
export const MAX_USER_DATA_BYTES = 1024 * 1024;

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * The bytes of a request's `cloudInit`. Bytes that are not text travel as base64; gzip is undone.
 * @param encoding the request's `cloudInitEncoding`
 * @throws UserDataError for base64 or gzip that cannot be undone, or for too much of it
 */
export function decodeUserData(text: string, encoding?: 'base64'): Uint8Array {
  if (encoding === undefined) {
    if (!text.isWellFormed()) {
      throw refusalAt(text, text.search(/\p{Surrogate}/u), 'half of a surrogate pair is not a character');
    }
    return withinLimit(Buffer.from(text, 'utf8'));
  }
  // Line breaks are what `base64` puts in every 76 characters; nothing else outside the alphabet is meant.
  const compact = text.replaceAll(/[\r\n]/g, '');
  if (!BASE64.test(compact)) {
    const detail =
      /^[A-Za-z0-9_-]+={0,2}$/.test(compact) && /[_-]/.test(compact)
        ? 'base64url where base64 is wanted (+ and / instead of - and _)'
        : 'not base64: only A–Z, a–z, 0–9, +, / and line breaks, padded with = to a multiple of four';
    throw new UserDataError(detail);
  }
  return gunzip(withinLimit(Buffer.from(compact, 'base64')));
}

/**
 * The text of user-data without its byte-order mark, which cloud-init would take for part of the header.
 * @throws UserDataError for gzip, UTF-16 and whatever else is not UTF-8
 */
export function decodeText(bytes: Uint8Array): string {
  withinLimit(bytes);
  if (isGzip(bytes)) {
    throw new UserDataError('gzip where text is expected; compressed once and sent as base64 it is undone');
  }
  const [first = 1, second = 1] = bytes;
  if (
    (first === 0xff && second === 0xfe) ||
    (first === 0xfe && second === 0xff) ||
    (first === 0) !== (second === 0)
  ) {
    throw new UserDataError('UTF-16; cloud-init reads UTF-8 only');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const valid = firstInvalidByte(bytes);
    const text = new TextDecoder('utf-8').decode(bytes.subarray(0, valid));
    throw refusalAt(
      text,
      text.length,
      'a byte that is not UTF-8; binary user-data is sent inside a MIME part as base64',
    );
  }
}

function gunzip(bytes: Uint8Array): Uint8Array {
  if (!isGzip(bytes)) {
    return bytes;
  }
  try {
    return gunzipSync(bytes, { maxOutputLength: MAX_USER_DATA_BYTES });
  } catch (error) {
    const isTooLong = error instanceof RangeError;
    throw new UserDataError(
      isTooLong ? `longer than ${MAX_USER_DATA_BYTES} bytes when decompressed` : 'damaged gzip',
    );
  }
}

function isGzip([first, second]: Uint8Array): boolean {
  return first === 0x1f && second === 0x8b;
}

function withinLimit(bytes: Uint8Array): Uint8Array {
  if (bytes.length > MAX_USER_DATA_BYTES) {
    throw new UserDataError(`longer than ${MAX_USER_DATA_BYTES} bytes`);
  }
  return bytes;
}

/** A lenient decoder replaces the first bad byte by U+FFFD; a text may hold one of its own, so the prefix is compared. */
function firstInvalidByte(bytes: Uint8Array): number {
  const lenient = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes), 'utf8');
  let index = 0;
  while (index < bytes.length && bytes[index] === lenient[index]) {
    index++;
  }
  return index;
}
