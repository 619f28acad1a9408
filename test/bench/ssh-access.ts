/**
 * The one key that everybody logs in with, made for one run, and what each kind of client needs to use it: files for
 * OpenSSH's client, and their names for the others.
 */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../lab/commands.ts';
import { SSH_USER } from '../lab/topology.ts';

/** Where to connect: the host itself, or a proxy before it. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** The paths are of files that only this machine's root can read. */
export interface SshAccess {
  readonly user: string;
  readonly privateKeyFile: string;
  /** Has a line for every endpoint. */
  readonly knownHostsFile: string;
  /** For OpenSSH's client. */
  readonly configFile: string;
  /** OpenSSH's client with that configuration, as libvirt's own clients start it: they take the name of one command. */
  readonly command: string;
}

/** Makes the key, and writes all files into `folder`. */
export async function createAccess(folder: string): Promise<SshAccess> {
  const access = {
    user: SSH_USER,
    privateKeyFile: join(folder, 'id_ed25519'),
    knownHostsFile: join(folder, 'known_hosts'),
    configFile: join(folder, 'ssh_config'),
    command: join(folder, 'ssh'),
  };
  const { privateKeyFile, knownHostsFile, configFile, command } = access;
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'benchmark', '-f', privateKeyFile]);
  await writeFile(knownHostsFile, '');
  await writeFile(
    configFile,
    `IdentityFile ${privateKeyFile}
IdentitiesOnly yes
UserKnownHostsFile ${knownHostsFile}
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
`,
  );
  await writeFile(command, `#!/bin/sh\nexec ssh -F ${configFile} "$@"\n`);
  await chmod(command, 0o755);
  return access;
}

/** Adds a line to known_hosts: whoever answers at this endpoint must have that key. */
export async function trustEndpoint(
  { knownHostsFile }: SshAccess,
  { address, port }: Endpoint,
  hostPublicKeyFile: string,
): Promise<void> {
  const [type, key] = (await readFile(hostPublicKeyFile, 'utf8')).split(' ');
  const known = await readFile(knownHostsFile, 'utf8');
  await writeFile(knownHostsFile, `${known}[${address}]:${port} ${type} ${key}\n`);
}
