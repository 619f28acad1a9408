/**
 * Each host's sshd on port 22, for one key of one account that may reach libvirt and nothing else, by one of the
 * two ways there are: a forward to the socket (kvm-a), or a forced command that is a libvirt connection (kvm-b).
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, waitUntil } from './commands.ts';
import { enterHost, killDaemon, writeHostFile } from './host.ts';
import { files, HOSTS, hostDirectories, type LabHost, SSH_USER } from './topology.ts';

const PID_FILE = '/run/sshd.pid';

/** Makes the user's key pair. ssh-keygen's files are read by every SSH implementation; not all of ssh2's own are. */
export async function createUserKey(): Promise<void> {
  await run('ssh-keygen', [
    '-q',
    '-t',
    'ed25519',
    '-N',
    '',
    '-C',
    'kvm-functions lab',
    '-f',
    files.privateKey,
  ]);
}

/** Makes a host's keys and writes its sshd's configuration. The user's key must exist. */
export async function configureSshd(host: LabHost): Promise<void> {
  const { ssh } = hostDirectories(host);
  for (const type of ['ed25519', 'ecdsa']) {
    await run('ssh-keygen', [
      '-q',
      '-t',
      type,
      '-N',
      '',
      '-C',
      host.name,
      '-f',
      join(ssh, `ssh_host_${type}_key`),
    ]);
  }
  const userKey = await readFile(`${files.privateKey}.pub`, 'utf8');
  await writeHostFile(ssh, 'authorized_keys', restrictKey(host, userKey));
  await writeHostFile(ssh, 'sshd_config', buildSshdConfig(host));
}

export async function startSshd(host: LabHost): Promise<void> {
  await enterHost(host, '/usr/sbin/sshd', ['-E', '/var/log/libvirt/sshd.log']);
  await waitUntil(`sshd of ${host.name}`, () => hasFile(host, PID_FILE));
}

/** Connections that are open go on; new ones are refused. */
export async function killSshd(host: LabHost): Promise<void> {
  await killDaemon(host, PID_FILE);
  await enterHost(host, 'rm', [PID_FILE]);
}

/** known_hosts for both hosts, one key type each: a client has to ask the host for the key that it knows. */
export async function writeKnownHosts(): Promise<void> {
  const lines = Object.values(HOSTS).map(async (host) => {
    const publicKey = join(hostDirectories(host).ssh, `ssh_host_${host.knownKeyType}_key.pub`);
    const [type, key] = (await readFile(publicKey, 'utf8')).split(' ');
    return `${host.address} ${type} ${key}\n`;
  });
  await writeFile(files.knownHosts, (await Promise.all(lines)).join(''));
}

function hasFile(host: LabHost, path: string): Promise<boolean> {
  return enterHost(host, 'test', ['-s', path]).then(
    () => true,
    () => false,
  );
}

function restrictKey(host: LabHost, publicKey: string): string {
  return host.transport === 'helper'
    ? `command="virt-ssh-helper qemu:///system",restrict ${publicKey}`
    : publicKey;
}

/** `AllowTcpForwarding no` and `PermitOpen none` would refuse the socket as well; a literal socket path allows that one and no TCP. */
function buildSshdConfig(host: LabHost): string {
  const socketOnly = `
AllowTcpForwarding local
AllowStreamLocalForwarding local
PermitOpen [/run/libvirt/libvirt-sock]:*
MaxSessions 0
ForceCommand /bin/false
`;
  return `# of a lab host (test/lab/sshd.ts)
ListenAddress ${host.address}
PidFile ${PID_FILE}
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
AuthorizedKeysFile /etc/ssh/authorized_keys
AllowUsers ${SSH_USER}
AuthenticationMethods publickey
UsePAM no
${host.transport === 'socket' ? socketOnly : ''}`;
}
