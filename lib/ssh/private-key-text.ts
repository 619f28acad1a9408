/**
 * The text around a private key: finds its one block, undoes the damage that is certain and names the damage that is
 * not. Environment variables and secret stores turn newlines into `\n`, into spaces or into nothing.
 */
import { PrivateKeyError } from './private-key-error.ts';

export interface PrivateKeyText {
  readonly format: 'openssh' | 'pem' | 'pkcs8';
  readonly encrypted: boolean;
  /** The block alone, LF line ends, from its BEGIN line to its END line. */
  readonly pem: string;
}

const FORMATS: Readonly<Record<string, PrivateKeyText['format']>> = {
  'OPENSSH PRIVATE KEY': 'openssh',
  'RSA PRIVATE KEY': 'pem',
  'EC PRIVATE KEY': 'pem',
  'PRIVATE KEY': 'pkcs8',
  'ENCRYPTED PRIVATE KEY': 'pkcs8',
};

/** `-----BEGIN ` in base64. */
const BASE64_OF_BEGIN = 'LS0tLS1CRUdJTi';

const OPENSSH_MAGIC = 'openssh-key-v1\0';

const AS_FILE = 'store the file as it is, or with every newline as \\n';

/** @throws PrivateKeyError */
export function readPrivateKeyText(raw: string): PrivateKeyText {
  const text = repair(raw);
  if (text === '') throw new PrivateKeyError('empty', 'the private key is empty');
  if (/^(ssh-|ecdsa-|sk-)|^-----BEGIN (SSH2 |RSA )?PUBLIC KEY|^---- BEGIN SSH2 PUBLIC/.test(text)) {
    throw new PrivateKeyError('public-key', 'this is the public key; the private one has no .pub at its end');
  }
  if (text.startsWith('PuTTY-User-Key-File')) {
    throw new PrivateKeyError(
      'unsupported',
      'a PuTTY key: convert it with: puttygen KEYFILE -O private-openssh -o NEWFILE',
    );
  }
  if (text.startsWith(BASE64_OF_BEGIN)) {
    throw new PrivateKeyError('unsupported', 'the private key is base64 encoded once more: store it decoded');
  }
  const begin = /-----BEGIN ([A-Z0-9 ]+)-----/.exec(text);
  if (!begin) {
    throw new PrivateKeyError('cut', `there is no BEGIN line: ${AS_FILE}`);
  }
  const label = begin[1] ?? '';
  const format = FORMATS[label];
  if (!format) {
    throw new PrivateKeyError(
      'unsupported',
      `a block of the kind "${label}" is no private key for SSH: make one with: ssh-keygen -t ed25519`,
    );
  }
  const endLine = `-----END ${label}-----`;
  const end = text.indexOf(endLine, begin.index);
  if (end < 0) {
    throw new PrivateKeyError('cut', `the END line is missing, so the key was cut: ${AS_FILE}`);
  }
  const pem = text.slice(begin.index, end + endLine.length);
  refuseLostLines(pem);
  return { format, encrypted: isEncrypted(pem, format, label), pem };
}

/** No key contains a backslash or a quotation mark, so these three cannot be meant otherwise. */
function repair(raw: string): string {
  return raw
    .replace(/^\uFEFF/, '')
    .trim()
    .replace(/^(["'])([\s\S]*)\1$/, '$2')
    .replace(/(\\r)?\\n/g, '\n')
    .replace(/\r\n?/g, '\n')
    .trim();
}

/** The body of a key file has one run of base64 a line: anything else was done to it on the way. */
function refuseLostLines(pem: string): void {
  const lines = pem.split('\n');
  if (lines.length < 3) {
    throw new PrivateKeyError('newlines-lost', `the private key has lost its newlines: ${AS_FILE}`);
  }
  if (lines.some((line) => /^[ \t]/.test(line))) {
    throw new PrivateKeyError('indented', `the lines of the private key are indented: ${AS_FILE}`);
  }
}

function isEncrypted(pem: string, format: PrivateKeyText['format'], label: string): boolean {
  if (format === 'pkcs8') return label.startsWith('ENCRYPTED');
  if (format === 'pem') return /^Proc-Type: 4,ENCRYPTED$/m.test(pem);
  // After the magic comes the cipher's name as a string (OpenSSH PROTOCOL.key).
  const bytes = Buffer.from(pem.split('\n').slice(1, -1).join(''), 'base64');
  const nameAt = OPENSSH_MAGIC.length + 4;
  if (bytes.length < nameAt || bytes.toString('latin1', 0, OPENSSH_MAGIC.length) !== OPENSSH_MAGIC)
    return false;
  const nameEnd = nameAt + bytes.readUInt32BE(OPENSSH_MAGIC.length);
  return bytes.toString('latin1', nameAt, nameEnd) !== 'none';
}
