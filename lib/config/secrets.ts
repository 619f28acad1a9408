/**
 * The two things a session needs that do not travel with the configuration: the private key and, for an encrypted
 * one, its passphrase. Read per invocation by whoever may read them; never logged, never part of an error.
 */
import { readFile as readFileFromDisk } from 'node:fs/promises';
import { parsePrivateKey } from '../ssh/private-key.ts';
import { PrivateKeyError } from '../ssh/private-key-error.ts';
import type { Config, SecretSource } from './schema.ts';

export interface SecretReaders {
  /** The secret's string value by name or ARN. */
  readonly readSecret: (id: string) => Promise<string>;
  readonly readFile?: (path: string) => Promise<string>;
}

export interface SshSecrets {
  /** As it was stored, checked to be a key that can be used with the passphrase. */
  readonly privateKey: string;
  readonly passphrase?: string;
  readonly knownHosts: string;
}

/** A source cannot be read, or what it holds is no usable key. The message names the source, never its content. */
export class SecretError extends Error {
  override readonly name = 'SecretError';
  /** `secret kvm-functions/ssh-key` or `file /etc/…`. */
  readonly source: string;

  constructor(source: string, detail: string, options?: ErrorOptions) {
    super(`${source}: ${detail}`, options);
    this.source = source;
  }
}

/** @throws SecretError */
export async function resolveSecrets(config: Config, readers: SecretReaders): Promise<SshSecrets> {
  const { privateKey, passphrase, knownHosts } = config.ssh;
  const [key, phrase] = await Promise.all([
    read(privateKey, readers),
    // One written with an editor ends in a line end that belongs to the file and not to the passphrase.
    passphrase === undefined
      ? undefined
      : read(passphrase, readers).then((text) => text.replace(/\r?\n$/, '')),
  ]);
  try {
    parsePrivateKey(key, phrase);
  } catch (error) {
    if (error instanceof PrivateKeyError)
      throw new SecretError(sourceName(privateKey), error.message, { cause: error });
    throw error;
  }
  return {
    privateKey: key,
    ...(phrase === undefined ? {} : { passphrase: phrase }),
    knownHosts: knownHosts.text,
  };
}

async function read(source: SecretSource, readers: SecretReaders): Promise<string> {
  let text: string;
  try {
    text =
      'secret' in source
        ? await readers.readSecret(source.secret)
        : await (readers.readFile ?? readUtf8)(source.file);
  } catch (error) {
    throw new SecretError(sourceName(source), 'cannot be read', { cause: error });
  }
  if (text.trim() === '') throw new SecretError(sourceName(source), 'is empty');
  return text;
}

function sourceName(source: SecretSource): string {
  return 'secret' in source ? `secret ${source.secret}` : `file ${source.file}`;
}

function readUtf8(path: string): Promise<string> {
  return readFileFromDisk(path, 'utf8');
}
