/**
 * What stands beside a bundle as config.json: the configuration as the functions need it. The aws section stays
 * behind, known_hosts is already read in, and a secret is a name: nothing in the file has to be kept secret.
 */
import type { Config } from './schema.ts';

/** @throws Error for a private key from a file: its path means nothing in a Lambda, and its content must not ship. */
export function shippedConfig(config: Config): string {
  const { aws: _, ...shipped } = config;
  for (const source of [shipped.ssh.privateKey, shipped.ssh.passphrase]) {
    if (source !== undefined && 'file' in source) throw new Error('a key from a file cannot be shipped');
  }
  return `${JSON.stringify(shipped, null, 2)}\n`;
}
