/**
 * Checks a line of authorized_keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT): a key that sshd would skip leaves a guest
 * that nobody can enter, and says nothing about it.
 */

export class AuthorizedKeyError extends Error {
  override readonly name = 'AuthorizedKeyError';
}

/** The fields behind the type inside the key's blob (RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4, PROTOCOL.u2f). */
const KEY_FIELDS: Readonly<Record<string, number>> = {
  'ssh-ed25519': 1,
  'ssh-rsa': 2,
  'ecdsa-sha2-nistp256': 2,
  'ecdsa-sha2-nistp384': 2,
  'ecdsa-sha2-nistp521': 2,
  'sk-ssh-ed25519@openssh.com': 2,
  'sk-ecdsa-sha2-nistp256@openssh.com': 3,
};

const ED25519_BYTES = 32;
/** OpenSSH's RequiredRSASize. */
const RSA_MINIMUM_BITS = 1024;

/**
 * @param line one line, options before the type allowed
 * @throws AuthorizedKeyError that never quotes the line
 */
export function validateAuthorizedKey(line: string): void {
  if (line.includes('PRIVATE KEY')) {
    throw new AuthorizedKeyError('is a private key; the public one, a single line, is wanted');
  }
  if (/[\r\n]/.test(line.trim())) {
    throw new AuthorizedKeyError('is more than one line; each key is an entry of its own');
  }
  if (/\p{Cc}/u.test(line.trim()) || !line.isWellFormed()) {
    throw new AuthorizedKeyError('contains a control character');
  }
  const fields = splitFields(line.trim());
  const at = fields.findIndex((field) => Object.hasOwn(KEY_FIELDS, field));
  const type = fields[at];
  if (type === undefined || at > 1) {
    throw new AuthorizedKeyError(
      `names no type of key that is known (${Object.keys(KEY_FIELDS).join(', ')})`,
    );
  }
  checkBlob(type, fields[at + 1]);
}

/** Splits at blanks; a quoted option may contain some. One that is never closed goes to the end of the line, as for sshd. */
function splitFields(line: string): string[] {
  return line.match(/(?:"(?:\\.|[^"\\])*(?:"|\\?$)|[^\s"])+/gs) ?? [];
}

function checkBlob(type: string, encoded: string | undefined): void {
  if (
    encoded === undefined ||
    !/^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(encoded)
  ) {
    throw new AuthorizedKeyError('has no base64 key behind its type; was it cut off?');
  }
  const [innerType, ...fields] = readStrings(Buffer.from(encoded, 'base64'));
  if (innerType?.toString('latin1') !== type) {
    throw new AuthorizedKeyError(`says ${type}, but the key inside is of another type or damaged`);
  }
  const [first, second] = fields;
  const hasItsFields = fields.length === KEY_FIELDS[type] && fields.every((field) => field.length > 0);
  const isWhole = type !== 'ssh-ed25519' || first?.length === ED25519_BYTES;
  if (!hasItsFields || !isWhole) {
    throw new AuthorizedKeyError('is damaged: the key does not have the length of its type');
  }
  if (type === 'ssh-rsa' && bitLength(second ?? Buffer.alloc(0)) < RSA_MINIMUM_BITS) {
    throw new AuthorizedKeyError(`is an RSA key shorter than ${RSA_MINIMUM_BITS} bits, which sshd refuses`);
  }
}

/** RFC 4251 section 5: strings one after another, each behind its length. Empty if they do not fill the blob exactly. */
function readStrings(blob: Buffer): Buffer[] {
  const strings: Buffer[] = [];
  let offset = 0;
  while (offset + 4 <= blob.length) {
    const end = offset + 4 + blob.readUInt32BE(offset);
    if (end > blob.length) {
      return [];
    }
    strings.push(blob.subarray(offset + 4, end));
    offset = end;
  }
  return offset === blob.length ? strings : [];
}

function bitLength(number: Buffer): number {
  const start = number.findIndex((byte) => byte !== 0);
  return start === -1 ? 0 : (number.length - start) * 8 - Math.clz32(number[start] ?? 0) + 24;
}
