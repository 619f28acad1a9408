/**
 * The host's own passwd, group and shadow: the machine's, plus the account that the functions log in with. The
 * machine's stay untouched.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SSH_USER } from './topology.ts';

const ACCOUNT_ID = 60_999;
/** As Debian's useradd would leave an account that logs in by key only: with `!` an sshd without PAM refuses it as locked. */
const NO_PASSWORD = '*';

/** Writes the three files into `directory`. May be repeated. */
export async function createAccounts(directory: string): Promise<void> {
  const append = async (name: string, line: string, edit = (text: string) => text) => {
    const lines = (await readFile(join('/etc', name), 'utf8')).split('\n');
    const others = lines.filter((other) => other !== '' && !other.startsWith(`${SSH_USER}:`));
    const content = `${edit(others.join('\n'))}\n${line}\n`;
    await writeFile(join(directory, name), content, { mode: name === 'shadow' ? 0o640 : 0o644 });
  };
  await append('passwd', `${SSH_USER}:x:${ACCOUNT_ID}:${ACCOUNT_ID}::/:/bin/sh`);
  await append('shadow', `${SSH_USER}:${NO_PASSWORD}:19000:0:99999:7:::`);
  await append('group', `${SSH_USER}:x:${ACCOUNT_ID}:`, addToLibvirtGroup);
}

function addToLibvirtGroup(groups: string): string {
  return groups.replace(/^(libvirt:[^:]*:\d+:)(.*)$/m, (_line, group: string, members: string) =>
    members === '' ? `${group}${SSH_USER}` : `${group}${members},${SSH_USER}`,
  );
}
