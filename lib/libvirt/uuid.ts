/** UUIDs: 16 raw bytes on the wire, lower-case hyphenated text everywhere else (RFC 9562 section 4). */

const UUID_TEXT = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** @throws RangeError when it is not 16 bytes. */
export function formatUuid(bytes: Uint8Array): string {
  if (bytes.length !== 16) {
    throw new RangeError(`a UUID has 16 bytes, not ${bytes.length}`);
  }
  const hex = Buffer.from(bytes).toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Accepts either case, only the hyphenated form. @throws RangeError for anything else. */
export function parseUuid(uuid: string): Uint8Array {
  if (!UUID_TEXT.test(uuid)) {
    throw new RangeError('not a UUID in its hyphenated form');
  }
  return Uint8Array.from(Buffer.from(uuid.replaceAll('-', ''), 'hex'));
}
