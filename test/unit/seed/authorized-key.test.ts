import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AuthorizedKeyError, validateAuthorizedKey } from '../../../lib/seed/authorized-key.ts';

/** RFC 4251 section 5: a string behind its length. */
const string = (bytes: Buffer) =>
  Buffer.concat([Buffer.from([0, 0, bytes.length >> 8, bytes.length & 255]), bytes]);
const key = (type: string, ...fields: Buffer[]) =>
  `${type} ${Buffer.concat([Buffer.from(type), ...fields].map(string)).toString('base64')}`;

const ED25519 = key('ssh-ed25519', Buffer.alloc(32, 7));
const exponent = Buffer.from([1, 0, 1]);
const RSA = key('ssh-rsa', exponent, Buffer.concat([Buffer.from([0]), Buffer.alloc(256, 0xa5)]));

describe('validateAuthorizedKey', () => {
  it.each([
    ED25519,
    `${ED25519} me@laptop: with words`,
    `  ${ED25519}\n`,
    RSA,
    key('ecdsa-sha2-nistp256', Buffer.from('nistp256'), Buffer.alloc(65, 4)),
    key('sk-ssh-ed25519@openssh.com', Buffer.alloc(32, 7), Buffer.from('ssh:')),
    key(
      'sk-ecdsa-sha2-nistp256@openssh.com',
      Buffer.from('nistp256'),
      Buffer.alloc(65, 4),
      Buffer.from('ssh:'),
    ),
    `restrict,command="echo \\"a b\\" ssh-rsa",from="192.0.2.0/24" ${ED25519} x`,
  ])('takes %s', (line) => {
    expect(() => validateAuthorizedKey(line)).not.toThrow();
  });

  it.each([
    ['', 'names no type'],
    ['hello', 'names no type'],
    ['ssh-dss AAAA', 'names no type'],
    ['a b ssh-ed25519 AAAA', 'names no type'],
    [`command="echo ${ED25519}`, 'names no type'],
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nsecret', 'private key'],
    [`${ED25519}\n${ED25519}`, 'more than one line'],
    [`${ED25519} a\u0000b`, 'control character'],
    ['ssh-ed25519', 'no base64 key'],
    ['ssh-ed25519 not*base64', 'no base64 key'],
    [ED25519.slice(0, -3), 'no base64 key'],
    [ED25519.replace('ssh-ed25519 ', 'ssh-rsa '), 'another type'],
    [RSA.replace('ssh-rsa ', 'ssh-ed25519 '), 'another type'],
    [ED25519.slice(0, -4), 'another type or damaged'],
    [key('ssh-ed25519', Buffer.alloc(31, 7)), 'is damaged'],
    [key('ssh-ed25519', Buffer.alloc(32, 7), Buffer.alloc(1, 7)), 'is damaged'],
    [key('ssh-rsa', exponent), 'is damaged'],
    [key('ssh-rsa', exponent, Buffer.alloc(64, 0xa5)), 'shorter than 1024 bits'],
  ])('refuses %j', (line, reason) => {
    expect(() => validateAuthorizedKey(line)).toThrow(AuthorizedKeyError);
    expect(() => validateAuthorizedKey(line)).toThrow(reason);
  });

  it('takes time in proportion to the length, whatever quotes are never closed', () => {
    const before = process.threadCpuUsage();

    expect(() => validateAuthorizedKey('"\\'.repeat(500_000))).toThrow('names no type');

    expect(process.threadCpuUsage(before).user / 1e6).toBeLessThan(3);
  });

  it('never quotes what it refuses', () => {
    for (const line of ['hunter2 hunter2', '-----BEGIN PRIVATE KEY----- hunter2', 'ssh-ed25519 hunter2']) {
      expect(() => validateAuthorizedKey(line)).toThrow(expect.not.stringContaining('hunter2'));
    }
  });

  it.skipIf(spawnSync('sh', ['-c', 'command -v ssh-keygen']).status !== 0).each([
    ['ed25519', []],
    ['rsa', ['-b', '2048']],
    ['ecdsa', ['-b', '521']],
  ])('takes what ssh-keygen makes (%s)', (type, options) => {
    const folder = mkdtempSync(join(tmpdir(), 'kvmfn-key-'));
    try {
      spawnSync('ssh-keygen', [
        '-q',
        '-t',
        type,
        ...options,
        '-N',
        '',
        '-C',
        'a b',
        '-f',
        join(folder, 'key'),
      ]);

      expect(() => validateAuthorizedKey(readFileSync(join(folder, 'key.pub'), 'utf8'))).not.toThrow();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
