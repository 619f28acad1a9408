/**
 * Reads a private key as it comes out of a secret or an environment variable: OpenSSH, PEM or PKCS#8, encrypted or not.
 * What is certain is repaired; what is not is refused with what to do, because a guessed key fails later as "refused".
 */
import ssh2, { type ParsedKey } from 'ssh2';
import { fingerprint } from './fingerprint.ts';
import { convertPkcs8 } from './pkcs8.ts';
import { PrivateKeyError } from './private-key-error.ts';
import { type PrivateKeyText, readPrivateKeyText } from './private-key-text.ts';

export interface PrivateKey {
  /** `ssh-ed25519`, `ssh-rsa`, `ecdsa-sha2-nistp256`, … */
  readonly type: string;
  /** `SHA256:…` of the public half, as `ssh-keygen -l` prints it: safe to show. */
  readonly fingerprint: string;
  /** For the handshake; decrypted. */
  readonly key: ParsedKey;
}

const REWRITE = 'rewrite a copy of it with: ssh-keygen -p -f KEYFILE';

/**
 * @param text the key file's content. Literal `\n`, surrounding quotes, CRLF, a byte order mark and a missing final
 *   newline are repaired.
 * @param passphrase for an encrypted key; ignored for one that is not.
 * @throws PrivateKeyError which never shows the key
 */
export function parsePrivateKey(text: string | Uint8Array, passphrase?: string): PrivateKey {
  const source = readPrivateKeyText(typeof text === 'string' ? text : Buffer.from(text).toString('utf8'));
  if (source.encrypted && !passphrase) {
    throw new PrivateKeyError(
      'passphrase-missing',
      'the private key is encrypted and no passphrase is given',
    );
  }
  const key = decode(source, passphrase);
  return { type: key.type, fingerprint: fingerprint(key.getPublicSSH()), key };
}

function decode(source: PrivateKeyText, passphrase: string | undefined): ParsedKey {
  const pem = source.format === 'pkcs8' ? convertPkcs8(source, passphrase) : source.pem;
  // A converted key is no longer encrypted, and ssh2 ignores a passphrase it has no use for.
  const key = parse(pem, passphrase);
  if (key && signs(key)) return key;
  if (source.encrypted) {
    throw new PrivateKeyError(
      'passphrase-wrong',
      'the private key cannot be decrypted: the passphrase is not its own, or its cipher is not supported ' +
        `(then ${REWRITE})`,
    );
  }
  throw new PrivateKeyError(
    'damaged',
    'the private key is complete from its first to its last line, but what is in between is no key that can be ' +
      `used: copy the file again; usable are Ed25519, ECDSA and RSA (${REWRITE})`,
  );
}

/** ssh2 returns its errors, except those it throws from within a decrypted block of nonsense. */
function parse(pem: string, passphrase: string | undefined): ParsedKey | null {
  try {
    const key = ssh2.utils.parseKey(pem, passphrase);
    return key instanceof Error || !key?.isPrivateKey() ? null : key;
  } catch {
    return null;
  }
}

/** The parsers look at the public numbers only: damage behind them would show as a refused login. */
function signs(key: ParsedKey): boolean {
  const probe = Buffer.from('kvm-functions');
  const hash = key.type === 'ssh-rsa' ? 'sha256' : undefined;
  try {
    return key.verify(probe, key.sign(probe, hash), hash) === true;
  } catch {
    return false;
  }
}
