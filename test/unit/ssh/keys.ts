/** Keys made by ssh-keygen: ssh2's own generator makes some that ssh2 cannot read. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface KeyPair {
  readonly file: string;
  readonly private: string;
  /** `type base64`, without the comment. */
  readonly public: string;
}

export interface KeyDir {
  readonly path: string;
  generate(name: string, ...options: string[]): KeyPair;
  remove(): void;
}

export function createKeyDir(): KeyDir {
  const path = mkdtempSync(join(tmpdir(), 'kvmfn-ssh-'));
  return {
    path,
    generate: (name, ...options) => {
      const file = join(path, name);
      execFileSync('ssh-keygen', ['-q', '-N', '', '-C', 'test', '-f', file, ...options]);
      const [type, key] = readFileSync(`${file}.pub`, 'utf8').split(' ');
      return { file, private: readFileSync(file, 'utf8'), public: `${type} ${key}` };
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
