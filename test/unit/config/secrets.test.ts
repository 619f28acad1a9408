import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseConfig } from '../../../lib/config/parse-config.ts';
import { resolveSecrets, SecretError } from '../../../lib/config/secrets.ts';
import { SAMPLE, sampleWith } from './sample-config.ts';

let folder: string;
let plainKey: string;
let lockedKey: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvmfn-secrets-'));
  const generate = (name: string, passphrase: string) => {
    const path = join(folder, name);
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-C', '', '-f', path]);
    return readFileSync(path, 'utf8');
  };
  plainKey = generate('plain', '');
  lockedKey = generate('locked', 'open sesame');
});
afterAll(() => rmSync(folder, { recursive: true }));

function configOf(text: string) {
  const result = parseConfig(text, { file: '/etc/kvmfn/config.yaml' });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.config;
}

/** Fails for a secret that was not put in. */
function vault(secrets: Record<string, string>) {
  return {
    readSecret: async (id: string) => {
      const value = secrets[id];
      if (value === undefined) throw new Error(`ResourceNotFoundException: ${id}`);
      return value;
    },
  };
}

const withPassphrase = () =>
  configOf(sampleWith('  knownHosts:', '  passphrase: { secret: kvm-functions/passphrase }\n  knownHosts:'));

describe('resolveSecrets', () => {
  it('reads the private key from the secret that the configuration names', async () => {
    const secrets = await resolveSecrets(configOf(SAMPLE), vault({ 'kvm-functions/ssh-key': plainKey }));

    expect(secrets).toEqual({
      privateKey: plainKey,
      knownHosts: expect.stringContaining('[10.20.0.12]:2222 ssh-ed25519'),
    });
  });

  it('reads the private key from a file beside the configuration', async () => {
    const config = configOf(sampleWith('{ secret: kvm-functions/ssh-key }', '{ file: ./key }'));

    const secrets = await resolveSecrets(config, {
      ...vault({}),
      readFile: async (path) => (path === '/etc/kvmfn/key' ? plainKey : 'another file'),
    });

    expect(secrets.privateKey).toBe(plainKey);
  });

  it('takes the line end that an editor left off a passphrase', async () => {
    const secrets = await resolveSecrets(
      withPassphrase(),
      vault({ 'kvm-functions/ssh-key': lockedKey, 'kvm-functions/passphrase': 'open sesame\n' }),
    );

    expect(secrets.passphrase).toBe('open sesame');
  });

  it.each([
    ['a secret that is not there', {}, /^secret kvm-functions\/ssh-key: cannot be read$/],
    ['an empty secret', { 'kvm-functions/ssh-key': ' \n' }, /^secret kvm-functions\/ssh-key: is empty$/],
  ])('names %s', async (_, secrets, message) => {
    const resolving = resolveSecrets(configOf(SAMPLE), vault(secrets));

    await expect(resolving).rejects.toThrow(SecretError);
    await expect(resolving).rejects.toThrow(message);
  });

  it('SS-05: names the secret whose content is no private key, and shows none of it', async () => {
    const body = plainKey.split('\n')[1] ?? '';
    for (const damaged of [
      plainKey.replaceAll('\n', ' ').slice(0, 150),
      body,
      `${plainKey.slice(0, 120)}\n`,
    ]) {
      const error = await resolveSecrets(configOf(SAMPLE), vault({ 'kvm-functions/ssh-key': damaged })).catch(
        (caught: unknown) => caught,
      );

      expect(error).toBeInstanceOf(SecretError);
      expect(String(error)).toMatch(/secret kvm-functions\/ssh-key: /);
      expect(String(error)).not.toContain(body.slice(0, 20));
    }
  });

  it('names the secret when its passphrase is missing or wrong', async () => {
    const missing = resolveSecrets(configOf(SAMPLE), vault({ 'kvm-functions/ssh-key': lockedKey }));
    await expect(missing).rejects.toThrow(/^secret kvm-functions\/ssh-key: .*passphrase/);

    const wrong = resolveSecrets(
      withPassphrase(),
      vault({ 'kvm-functions/ssh-key': lockedKey, 'kvm-functions/passphrase': 'guess' }),
    );
    await expect(wrong).rejects.toThrow(/^secret kvm-functions\/ssh-key: .*passphrase/);
  });
});
