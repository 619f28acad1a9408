/**
 * PKCS#8 (`BEGIN PRIVATE KEY`), which openssl and cloud consoles write and ssh2 does not read: re-encoded into the form
 * of its kind. Node's crypto decodes and decrypts it, so nothing here touches ASN.1.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto';
import { encodeOpensshEd25519 } from './openssh-ed25519.ts';
import { PrivateKeyError } from './private-key-error.ts';
import type { PrivateKeyText } from './private-key-text.ts';

/**
 * @returns the key as PKCS#1 (RSA), SEC 1 (ECDSA) or OpenSSH (Ed25519) text, not encrypted
 * @throws PrivateKeyError
 */
export function convertPkcs8({ pem, encrypted }: PrivateKeyText, passphrase: string | undefined): string {
  const key = decode(pem, encrypted, passphrase);
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return key.export({ type: 'pkcs1', format: 'pem' }).toString();
    case 'ec':
      return key.export({ type: 'sec1', format: 'pem' }).toString();
    case 'ed25519':
      return encodeOpensshEd25519(key);
    default:
      throw new PrivateKeyError(
        'unsupported',
        `a key of the kind "${key.asymmetricKeyType}" cannot be used for SSH: make one with: ssh-keygen -t ed25519`,
      );
  }
}

function decode(pem: string, encrypted: boolean, passphrase: string | undefined): KeyObject {
  try {
    return createPrivateKey({ key: pem, ...(encrypted && passphrase ? { passphrase } : {}) });
  } catch {
    if (encrypted) {
      throw new PrivateKeyError(
        'passphrase-wrong',
        'the private key cannot be decrypted: the passphrase is not its own, or its cipher is not supported ' +
          '(then rewrite a copy with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEYFILE -out NEWFILE)',
      );
    }
    throw new PrivateKeyError('damaged', 'the PKCS#8 private key cannot be decoded: copy the file again');
  }
}
