/** Fresh SSH keys for one run of the embedded host: nothing secret is ever stored in the repository. */
import ssh2 from 'ssh2';

export interface SshKeyPair {
  /** OpenSSH's own format, unencrypted. */
  readonly privateKey: string;
  /** One line as in authorized_keys: type and base64. */
  readonly publicKey: string;
}

/** An Ed25519 pair. About 2 in 1,000 that ssh2 makes cannot be read back by it, so each is tried before it is handed out. */
export function generateSshKey(): SshKeyPair {
  for (;;) {
    const pair = ssh2.utils.generateKeyPairSync('ed25519');
    if (!(ssh2.utils.parseKey(pair.private) instanceof Error)) {
      return { privateKey: pair.private, publicKey: pair.public.split(' ').slice(0, 2).join(' ') };
    }
  }
}

/** The public half of a private key, as a line of known_hosts or authorized_keys has it. @throws Error when unreadable. */
export function publicKeyLine(privateKey: string): string {
  const key = ssh2.utils.parseKey(privateKey);
  if (key instanceof Error) {
    throw key;
  }
  return `${key.type} ${key.getPublicSSH().toString('base64')}`;
}
