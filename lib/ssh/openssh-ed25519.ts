/**
 * Writes an Ed25519 key as an OpenSSH key file (OpenSSH PROTOCOL.key): the only form in which ssh2 reads that kind, as
 * neither PKCS#1 nor SEC 1 has one for it.
 */
import { type KeyObject, randomBytes } from 'node:crypto';

const TYPE = 'ssh-ed25519';
const BLOCK_BYTES = 8;

/** @param key a private key whose asymmetricKeyType is `ed25519` */
export function encodeOpensshEd25519(key: KeyObject): string {
  const { x, d } = key.export({ format: 'jwk' });
  if (!x || !d) throw new TypeError('not an Ed25519 private key');
  const publicBytes = Buffer.from(x, 'base64url');
  const seed = Buffer.from(d, 'base64url');

  // The same random number twice: a reader knows by it that it decrypted rightly.
  const check = randomBytes(4);
  const secret = [
    check,
    check,
    string(TYPE),
    string(publicBytes),
    string(Buffer.concat([seed, publicBytes])),
    string(''),
  ];
  const file = Buffer.concat([
    Buffer.from('openssh-key-v1\0', 'latin1'),
    string('none'),
    string('none'),
    string(''),
    uint32(1),
    string(Buffer.concat([string(TYPE), string(publicBytes)])),
    string(pad(Buffer.concat(secret))),
  ]);
  const lines = file
    .toString('base64')
    .replace(/(.{70})/g, '$1\n')
    .trimEnd();
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** Padding counts up from 1 to the cipher's block size. */
function pad(bytes: Buffer): Buffer {
  const missing = (BLOCK_BYTES - (bytes.length % BLOCK_BYTES)) % BLOCK_BYTES;
  return Buffer.concat([bytes, Buffer.from(Array.from({ length: missing }, (_, index) => index + 1))]);
}

function string(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint32(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
