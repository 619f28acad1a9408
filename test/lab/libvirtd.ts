/**
 * Each host's libvirtd with its log daemon, a directory pool and a hook that keeps what the guests write to
 * their serial consoles.
 */
import { enterHost, killDaemon, writeHostFile } from './host.ts';
import { hostDirectories, type LabHost, POOL } from './topology.ts';

const PID_FILE = '/run/libvirtd.pid';
const START_TIMEOUT_MS = 30_000;

/** Replaces polkit by the socket's group. Without these lines libvirtd authenticates as Debian ships it: by polkit. */
const SOCKET_PERMISSIONS = `unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_rw = "none"
`;

/** A host gets no profile per guest: AppArmor, where there is one, does not see the host's private paths. */
const QEMU_CONFIGURATION = 'security_driver = "none"\n';

/**
 * A serial console of type pty keeps nothing of what no one reads. libvirt runs this hook with the live domain on standard input
 * once QEMU is up; the reader must let go of every descriptor of libvirt's, which waits for their end.
 */
const CONSOLE_HOOK = `#!/bin/sh
[ "$2" = started ] || exit 0
console=$(sed -n "s|.*<source path='\\(/dev/pts/[0-9]*\\)'/>.*|\\1|p" | head -n 1)
[ -n "$console" ] || exit 0
setsid cat "$console" </dev/null >"/var/log/libvirt/consoles/$1.log" 2>/dev/null &
`;

/** Writes the daemons' configuration: no networks and no pools come along from the machine. */
export async function configureLibvirtd(host: LabHost): Promise<void> {
  const { libvirtConfiguration } = hostDirectories(host);
  const authentication = host.authentication === 'socket-permissions' ? SOCKET_PERMISSIONS : '';
  await writeHostFile(libvirtConfiguration, 'libvirtd.conf', authentication);
  await writeHostFile(libvirtConfiguration, 'qemu.conf', QEMU_CONFIGURATION);
  await writeHostFile(libvirtConfiguration, 'virtlogd.conf', '');
  await writeHostFile(libvirtConfiguration, 'hooks/qemu', CONSOLE_HOOK, 0o755);
}

export async function startVirtlogd(host: LabHost): Promise<void> {
  await enterHost(host, 'virtlogd', ['--daemon']);
}

/** Returns when the daemon answers calls. */
export async function startLibvirtd(host: LabHost): Promise<void> {
  await enterHost(host, 'libvirtd', ['--daemon']);
  await virsh(host, ['version'], START_TIMEOUT_MS);
}

/** As a crash would: guests run on, clients lose their connections, whatever was being done is left half done. */
export async function killLibvirtd(host: LabHost): Promise<void> {
  await killDaemon(host, PID_FILE);
}

export async function createPool(host: LabHost): Promise<void> {
  await virsh(host, ['pool-define-as', POOL.name, 'dir', '--target', POOL.target]);
  await virsh(host, ['pool-autostart', POOL.name]);
  await virsh(host, ['pool-start', POOL.name]);
}

/** virsh as root inside the host: what an administrator standing there sees. @throws CommandError with virsh's own words */
export function virsh(host: LabHost, args: readonly string[], timeoutMs?: number): Promise<string> {
  const options = timeoutMs === undefined ? {} : { timeoutMs };
  return enterHost(host, 'virsh', ['--connect', 'qemu:///system', '--quiet', ...args], options);
}
