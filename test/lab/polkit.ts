/**
 * Debian's stock polkit for a host whose libvirtd asks it: a system bus of the host's own, which starts polkitd
 * when libvirtd first calls it. The rule that lets the group libvirt manage it is the one in Debian's package,
 * untouched.
 */
import { enterHost } from './host.ts';
import type { LabHost } from './topology.ts';

/** To be called before libvirtd starts: it looks for the bus then. */
export async function startSystemBus(host: LabHost): Promise<void> {
  await enterHost(host, 'dbus-daemon', ['--system', '--fork']);
}
