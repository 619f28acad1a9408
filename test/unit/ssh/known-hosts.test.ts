import { createHmac, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprint } from '../../../lib/ssh/fingerprint.ts';
import { trustHost } from '../../../lib/ssh/host-trust.ts';
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { createKeyDir, type KeyDir } from './keys.ts';

/** Hashed as ssh-keygen -H does. */
function hashed(name: string): string {
  const salt = randomBytes(20);
  const hash = createHmac('sha1', salt).update(name).digest('base64');
  return `|1|${salt.toString('base64')}|${hash}`;
}

describe('known_hosts', () => {
  let dir: KeyDir;
  let ed25519: string;
  let otherEd25519: string;
  let rsa: string;
  let ecdsa: string;

  beforeAll(() => {
    dir = createKeyDir();
    ed25519 = dir.generate('a', '-t', 'ed25519').public;
    otherEd25519 = dir.generate('b', '-t', 'ed25519').public;
    rsa = dir.generate('c', '-t', 'rsa', '-b', '2048').public;
    ecdsa = dir.generate('d', '-t', 'ecdsa').public;
  });
  afterAll(() => dir.remove());

  const blob = (publicKey: string): Buffer => Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');

  /** What the file says about a host that presents this key: `trusted`, or the reason of the refusal. */
  function verdict(text: string, key: string, address = 'hyp1.example.test', port = 22): string {
    try {
      return trustHost(parseKnownHosts(text), address, port).judge(blob(key))?.reason ?? 'trusted';
    } catch (error) {
      return error instanceof Error && 'reason' in error ? String(error.reason) : String(error);
    }
  }

  it('trusts the key on file and refuses another of the same type as changed', () => {
    const text = `hyp1.example.test ${ed25519} a comment\n`;

    expect(verdict(text, ed25519)).toBe('trusted');
    expect(verdict(text, otherEd25519)).toBe('host-key-changed');
  });

  it('refuses a host it does not know: there is no trust on first use', () => {
    expect(verdict('', ed25519)).toBe('host-key-unknown');
    expect(verdict(`hyp2.example.test ${ed25519}`, ed25519)).toBe('host-key-unknown');
  });

  it('SS-02: refuses a changed key of a host on its own port', () => {
    const text = `[hyp1.example.test]:2222 ${ed25519}`;

    expect(verdict(text, ed25519, 'hyp1.example.test', 2222)).toBe('trusted');
    expect(verdict(text, otherEd25519, 'hyp1.example.test', 2222)).toBe('host-key-changed');
  });

  it('SS-02: lets an entry for one port say nothing about another', () => {
    expect(verdict(`[hyp1.example.test]:2222 ${ed25519}`, ed25519, 'hyp1.example.test', 22)).toBe(
      'host-key-unknown',
    );
    expect(verdict(`[hyp1.example.test]:2222 ${ed25519}`, ed25519, 'hyp1.example.test', 2223)).toBe(
      'host-key-unknown',
    );
    expect(verdict(`hyp1.example.test ${ed25519}`, ed25519, 'hyp1.example.test', 2222)).toBe(
      'host-key-unknown',
    );
  });

  it('SS-02: says how the entry is to be written when only the port is missing', () => {
    const knownHosts = parseKnownHosts(`hyp1.example.test ${ed25519}`);

    expect(() => trustHost(knownHosts, 'hyp1.example.test', 2222)).toThrow(
      /written as \[hyp1\.example\.test\]:2222/,
    );
  });

  it('SS-03: matches a hashed entry over the exact name with its port, wherever it stands', () => {
    const text = [
      `${hashed('another.example.test')} ${otherEd25519}`,
      `${hashed('hyp1.example.test')} ${otherEd25519}`,
      `${hashed('[hyp1.example.test]:2222')} ${ed25519}`,
    ].join('\n');

    expect(verdict(text, ed25519, 'hyp1.example.test', 2222)).toBe('trusted');
    expect(verdict(text, otherEd25519, 'hyp1.example.test', 2222)).toBe('host-key-changed');
    expect(verdict(text, otherEd25519)).toBe('trusted');
  });

  it('SS-01: offers only the types on file, RSA with SHA-2 signatures', () => {
    const offered = (text: string): string[] =>
      trustHost(parseKnownHosts(text), 'hyp1.example.test', 22).algorithms;

    expect(offered(`hyp1.example.test ${rsa}`)).toEqual(['rsa-sha2-512', 'rsa-sha2-256']);
    expect(offered(`hyp1.example.test ${ecdsa}`)).toEqual(['ecdsa-sha2-nistp256']);
    expect(offered(`hyp1.example.test ${rsa}\nhyp1.example.test ${ed25519}`)).toEqual([
      'ssh-ed25519',
      'rsa-sha2-512',
      'rsa-sha2-256',
    ]);
  });

  it('trusts each of several keys of one host', () => {
    const text = `hyp1.example.test ${rsa}\nhyp1.example.test,192.0.2.7 ${ed25519}`;

    expect(verdict(text, rsa)).toBe('trusted');
    expect(verdict(text, ed25519)).toBe('trusted');
    expect(verdict(text, ed25519, '192.0.2.7')).toBe('trusted');
  });

  it.each([
    { hosts: '*.example.test', address: 'hyp1.example.test', port: 22, expected: 'trusted' },
    { hosts: 'hyp?.example.test', address: 'hyp1.example.test', port: 22, expected: 'trusted' },
    { hosts: 'hyp?.example.test', address: 'hyp12.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: '*', address: 'hyp1.example.test', port: 2222, expected: 'trusted' },
    { hosts: '[*.example.test]:2222', address: 'hyp1.example.test', port: 2222, expected: 'trusted' },
    { hosts: '*.example.test', address: 'example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: '*.example.test,!hyp1.*', address: 'hyp1.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: '!hyp1.*,*.example.test', address: 'hyp1.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: '!hyp2.*,*.example.test', address: 'hyp1.example.test', port: 22, expected: 'trusted' },
    { hosts: '!hyp2.*', address: 'hyp1.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: 'HYP1.Example.Test', address: 'hyp1.example.TEST', port: 22, expected: 'trusted' },
    { hosts: 'hyp1.example.tes', address: 'hyp1.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: 'hyp1xexample.test', address: 'hyp1.example.test', port: 22, expected: 'host-key-unknown' },
    { hosts: '2001:db8::7', address: '2001:db8::7', port: 22, expected: 'trusted' },
    { hosts: '[2001:db8::7]:2222', address: '2001:db8::7', port: 2222, expected: 'trusted' },
  ])('$hosts for $address port $port: $expected', ({ hosts, address, port, expected }) => {
    expect(verdict(`${hosts} ${ed25519}`, ed25519, address, port)).toBe(expected);
  });

  it('matches a pattern of many stars against a long name in linear time', () => {
    const text = `${'*a'.repeat(60)}b ${ed25519}`;

    expect(verdict(text, ed25519, 'a'.repeat(5_000))).toBe('host-key-unknown');
  });

  it('refuses a revoked key even where another line trusts it', () => {
    const text = `hyp1.example.test ${ed25519}\nhyp1.example.test ${rsa}\n@revoked * ${ed25519}`;

    expect(verdict(text, ed25519)).toBe('host-key-revoked');
    expect(verdict(text, rsa)).toBe('trusted');
  });

  it('does not connect to a host whose every key is revoked', () => {
    expect(verdict(`hyp1.example.test ${ed25519}\n@revoked * ${ed25519}`, rsa)).toBe('host-key-revoked');
  });

  it('never takes a certificate authority for a host key, and says why there is none', () => {
    const text = `@cert-authority *.example.test ${ed25519}`;

    expect(verdict(text, ed25519)).toBe('host-key-unknown');
    expect(() => trustHost(parseKnownHosts(text), 'hyp1.example.test', 22)).toThrow(/certificate authority/);
  });

  it('names the types on file when none of them is usable', () => {
    const type = 'sk-ssh-ed25519@openssh.com';
    const key = Buffer.concat([Buffer.from([0, 0, 0, type.length]), Buffer.from(type), Buffer.alloc(8)]);
    const knownHosts = parseKnownHosts(`hyp1.example.test ${type} ${key.toString('base64')}`);

    expect(knownHosts.faults).toEqual([]);
    expect(() => trustHost(knownHosts, 'hyp1.example.test', 22)).toThrow(
      /it has sk-ssh-ed25519@openssh\.com/,
    );
  });

  it('shows both fingerprints of a changed key as ssh-keygen prints them', () => {
    const trust = trustHost(parseKnownHosts(`\nhyp1.example.test ${ed25519}`), 'hyp1.example.test', 22);

    const message = trust.judge(blob(otherEd25519))?.message;

    expect(message).toContain(fingerprint(blob(otherEd25519)));
    expect(message).toContain(`${fingerprint(blob(ed25519))} (line 2)`);
  });

  it('reads CRLF, tabs, a byte order mark, comments, blank and indented lines', () => {
    const text = `\uFEFF# hosts of the fleet\r\n\r\n  hyp1.example.test\t${ed25519}\tcomment\r\n\t# end\r\n`;

    expect(parseKnownHosts(text).faults).toEqual([]);
    expect(verdict(text, ed25519)).toBe('trusted');
  });

  it('reports each bad line with its number and keeps the others', () => {
    const [type, key] = ed25519.split(' ');
    const text = [
      `hyp1.example.test ${ed25519}`,
      'hyp2.example.test ssh-ed25519',
      `@trusted hyp3.example.test ${ed25519}`,
      `|2|abc|def ${ed25519}`,
      `|1|c2hvcnQ=|c2hvcnQ= ${ed25519}`,
      `hyp4.example.test ssh-rsa ${key}`,
      `hyp5.example.test ${type} not*base64`,
      `hyp6.example.test ${type} ${key?.slice(0, -8)}`,
      `a,,b ${ed25519}`,
      `! ${ed25519}`,
      '@revoked',
    ].join('\n');

    const { entries, faults } = parseKnownHosts(text);

    expect(entries.map(({ line }) => line)).toEqual([1]);
    expect(faults.map(({ line }) => line)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(faults.map(({ detail }) => detail)).toEqual([
      'fewer than three fields: hosts, key type and key',
      'an unknown marker',
      'a hashed host that is not |1|salt|hash',
      'a hashed host whose salt and hash are not 20 bytes each',
      'a key that is not of the type written before it (ssh-rsa)',
      'a key that is not base64',
      'a damaged key',
      'an empty host pattern',
      'an empty host pattern',
      'fewer than three fields: hosts, key type and key',
    ]);
  });
});
