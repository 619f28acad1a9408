import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parsePrivateKey } from '../../../lib/ssh/private-key.ts';
import { PrivateKeyError, type PrivateKeyProblem } from '../../../lib/ssh/private-key-error.ts';
import { createKeyDir, type KeyDir, type KeyPair } from './keys.ts';

const PASSPHRASE = 'correct horse';

const KINDS = [
  { kind: 'ed25519', options: ['-t', 'ed25519'], type: 'ssh-ed25519' },
  { kind: 'rsa', options: ['-t', 'rsa', '-b', '2048'], type: 'ssh-rsa' },
  { kind: 'ecdsa-256', options: ['-t', 'ecdsa', '-b', '256'], type: 'ecdsa-sha2-nistp256' },
  { kind: 'ecdsa-384', options: ['-t', 'ecdsa', '-b', '384'], type: 'ecdsa-sha2-nistp384' },
  { kind: 'ecdsa-521', options: ['-t', 'ecdsa', '-b', '521'], type: 'ecdsa-sha2-nistp521' },
];

describe('a private key', () => {
  let dir: KeyDir;
  let pairs: Record<string, KeyPair>;
  let ed25519: KeyPair;

  beforeAll(() => {
    dir = createKeyDir();
    pairs = Object.fromEntries(KINDS.map(({ kind, options }) => [kind, dir.generate(kind, ...options)]));
    ed25519 = dir.generate('plain', '-t', 'ed25519');
  });
  afterAll(() => dir.remove());

  const pair = (kind: string): KeyPair => pairs[kind] ?? ed25519;
  const publicBlob = ({ public: text }: KeyPair): string => text.split(' ')[1] ?? '';

  /** The same key rewritten by ssh-keygen: another format, another passphrase. */
  function rewritten(source: KeyPair, name: string, passphrase: string, ...options: string[]): string {
    const file = join(dir.path, name);
    copyFileSync(source.file, file);
    execFileSync('ssh-keygen', ['-q', '-p', '-P', '', '-N', passphrase, '-f', file, ...options]);
    return readFileSync(file, 'utf8');
  }

  function problemOf(text: string, passphrase?: string): PrivateKeyError {
    try {
      parsePrivateKey(text, passphrase);
    } catch (error) {
      if (error instanceof PrivateKeyError) return error;
      throw error;
    }
    throw new Error('the key was accepted');
  }

  describe.each(KINDS)('of kind $kind', ({ kind, type }) => {
    it('is read in OpenSSH form', () => {
      const key = parsePrivateKey(pair(kind).private);

      expect(key.type).toBe(type);
      expect(key.key.getPublicSSH().toString('base64')).toBe(publicBlob(pair(kind)));
    });

    it('is read encrypted, with its passphrase', () => {
      const text = rewritten(pair(kind), `${kind}-enc`, PASSPHRASE);

      expect(parsePrivateKey(text, PASSPHRASE).key.getPublicSSH().toString('base64')).toBe(
        publicBlob(pair(kind)),
      );
      expect(problemOf(text).problem).toBe('passphrase-missing');
      expect(problemOf(text, '').problem).toBe('passphrase-missing');
      expect(problemOf(text, 'wrong').problem).toBe('passphrase-wrong');
    });
  });

  it.each(['rsa', 'ecdsa-256', 'ecdsa-384', 'ecdsa-521'])('of kind %s is read in PEM form', (kind) => {
    const text = rewritten(pair(kind), `${kind}-pem`, '', '-m', 'PEM');

    expect(text).toMatch(/BEGIN (RSA|EC) PRIVATE KEY/);
    expect(parsePrivateKey(text).key.getPublicSSH().toString('base64')).toBe(publicBlob(pair(kind)));
  });

  it.each(['rsa', 'ecdsa-256'])('of kind %s is read in encrypted PEM form', (kind) => {
    const text = rewritten(pair(kind), `${kind}-pem-enc`, PASSPHRASE, '-m', 'PEM');

    expect(parsePrivateKey(text, PASSPHRASE).key.getPublicSSH().toString('base64')).toBe(
      publicBlob(pair(kind)),
    );
    expect(problemOf(text).problem).toBe('passphrase-missing');
    expect(problemOf(text, 'wrong').problem).toBe('passphrase-wrong');
  });

  it.each(['rsa', 'ecdsa-256', 'ecdsa-384', 'ecdsa-521'])('of kind %s is read in PKCS#8 form', (kind) => {
    const plain = rewritten(pair(kind), `${kind}-pkcs8`, '', '-m', 'PKCS8');
    const encrypted = rewritten(pair(kind), `${kind}-pkcs8-enc`, PASSPHRASE, '-m', 'PKCS8');

    expect(plain).toContain('BEGIN PRIVATE KEY');
    expect(encrypted).toContain('BEGIN ENCRYPTED PRIVATE KEY');
    for (const key of [parsePrivateKey(plain), parsePrivateKey(encrypted, PASSPHRASE)]) {
      expect(key.key.getPublicSSH().toString('base64')).toBe(publicBlob(pair(kind)));
    }
    expect(problemOf(encrypted).problem).toBe('passphrase-missing');
    expect(problemOf(encrypted, 'wrong').problem).toBe('passphrase-wrong');
  });

  it('of kind Ed25519 in PKCS#8 form is converted and still signs', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const text = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

    const key = parsePrivateKey(text);

    const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
    expect(key.type).toBe('ssh-ed25519');
    expect(key.key.getPublicSSH().subarray(-32).equals(raw)).toBe(true);
  });

  it('shows the fingerprint that ssh-keygen shows', () => {
    const printed = execFileSync('ssh-keygen', ['-l', '-f', `${ed25519.file}.pub`], { encoding: 'utf8' });

    expect(printed).toContain(parsePrivateKey(ed25519.private).fingerprint);
  });

  it('ignores a passphrase it does not need', () => {
    expect(parsePrivateKey(ed25519.private, 'unused').type).toBe('ssh-ed25519');
  });

  it.each([
    { damage: 'a literal \\n for each newline', repaired: (text: string) => text.replaceAll('\n', '\\n') },
    {
      damage: 'a literal \\r\\n for each newline',
      repaired: (text: string) => text.replaceAll('\n', '\\r\\n'),
    },
    {
      damage: 'a literal \\n and a real final newline',
      repaired: (text: string) => `${text.trim().replaceAll('\n', '\\n')}\n`,
    },
    { damage: 'quotes around it', repaired: (text: string) => JSON.stringify(text) },
    { damage: 'CRLF', repaired: (text: string) => text.replaceAll('\n', '\r\n') },
    { damage: 'a byte order mark', repaired: (text: string) => `\uFEFF${text}` },
    { damage: 'no final newline', repaired: (text: string) => text.trimEnd() },
    { damage: 'blank lines around it', repaired: (text: string) => `\n\n${text}\n\n` },
  ])('SS-05: is repaired from $damage', ({ repaired }) => {
    for (const source of [ed25519, pair('rsa')]) {
      expect(parsePrivateKey(repaired(source.private)).key.getPublicSSH().toString('base64')).toBe(
        publicBlob(source),
      );
    }
  });

  it('SS-05: is read from bytes as from text', () => {
    expect(parsePrivateKey(Buffer.from(ed25519.private)).type).toBe('ssh-ed25519');
  });

  const DAMAGES: { damage: string; problem: PrivateKeyProblem; damaged: (text: string) => string }[] = [
    {
      damage: 'spaces for newlines',
      problem: 'newlines-lost',
      damaged: (text) => text.replaceAll('\n', ' '),
    },
    {
      damage: 'nothing for newlines',
      problem: 'newlines-lost',
      damaged: (text) => text.replaceAll('\n', ''),
    },
    { damage: 'indentation', problem: 'indented', damaged: (text) => text.replaceAll('\n', '\n    ') },
    { damage: 'a missing END line', problem: 'cut', damaged: (text) => text.slice(0, -40) },
    { damage: 'a missing BEGIN line', problem: 'cut', damaged: (text) => text.slice(40) },
    {
      damage: 'a missing line within',
      problem: 'damaged',
      damaged: (text) => text.replace(/\n[^\n]+\n/, '\n'),
    },
    {
      damage: 'a changed magic',
      problem: 'damaged',
      damaged: (text) => text.replace('b3BlbnNz', 'AAAAbnNz'),
    },
    {
      damage: 'base64 around all of it',
      problem: 'unsupported',
      damaged: (text) => Buffer.from(text).toString('base64'),
    },
    {
      damage: 'a certificate block',
      problem: 'unsupported',
      damaged: (text) => text.replaceAll('OPENSSH PRIVATE KEY', 'CERTIFICATE'),
    },
    { damage: 'the DSA label', problem: 'unsupported', damaged: (text) => text.replaceAll('OPENSSH', 'DSA') },
    {
      damage: 'the PKCS#8 label',
      problem: 'damaged',
      damaged: (text) => text.replaceAll('OPENSSH PRIVATE', 'PRIVATE'),
    },
    {
      damage: 'a PuTTY header',
      problem: 'unsupported',
      damaged: (text) => `PuTTY-User-Key-File-3: ssh-ed25519\n${text}`,
    },
  ];

  it.each(DAMAGES)(
    'SS-05: with $damage is refused as "$problem", without a word of the key',
    ({ problem, damaged }) => {
      const text = damaged(ed25519.private);

      const error = problemOf(text);

      expect(error.problem).toBe(problem);
      expectNoKeyIn(error, text);
    },
  );

  it('SS-05: with a damaged secret number behind sound public ones is refused, not tried', () => {
    const der = pair('rsa').private;
    const pem = rewritten(pair('rsa'), 'rsa-secret-damaged', '', '-m', 'PEM').split('\n');
    const middle = Math.floor(pem.length / 2);
    pem[middle] = (pem[middle] ?? '').split('').reverse().join('');

    const error = problemOf(pem.join('\n'));

    expect(error.problem).toBe('damaged');
    expectNoKeyIn(error, der);
  });

  it('SS-05: says of each wrong passphrase and format nothing of the key', () => {
    const text = rewritten(ed25519, 'leak-check', PASSPHRASE);

    for (const error of [problemOf(text), problemOf(text, 'wrong')]) {
      expectNoKeyIn(error, text);
      expect(inspect(error)).not.toContain(PASSPHRASE);
    }
  });

  it('that is empty or public is named as such', () => {
    expect(problemOf('').problem).toBe('empty');
    expect(problemOf(' \n').problem).toBe('empty');
    expect(problemOf(ed25519.public).problem).toBe('public-key');
  });

  it('of a kind that SSH has no use for is refused with the command that makes one', () => {
    const { privateKey } = generateKeyPairSync('x25519');
    const error = problemOf(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());

    expect(error.problem).toBe('unsupported');
    expect(error.message).toContain('ssh-keygen -t ed25519');
  });

  /** No run of 12 characters of the key's body may appear anywhere in the error, its stack or its cause. */
  function expectNoKeyIn(error: PrivateKeyError, text: string): void {
    const shown = inspect(error, { depth: 10, showHidden: true });
    const body = text.replace(/-----[A-Z0-9 ]+-----|\s|\\n/g, '');
    for (let at = 0; at + 12 <= body.length; at++) {
      expect(shown).not.toContain(body.slice(at, at + 12));
    }
    expect(error.cause).toBeUndefined();
  }
});
