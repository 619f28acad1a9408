/**
 * What the lab suite sees and does from outside the product: the host as its administrator sees it, the guest's
 * console, files that a guest serves, and daemons that die. Hosts are named as in the configuration.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as libvirtd from './libvirtd.ts';
import * as sshd from './sshd.ts';
import { HOSTS, hostDirectories, type LabHostName } from './topology.ts';

export { files, HOSTS, IMAGE_NAME, type LabHostName, POOL } from './topology.ts';

/** virsh as root inside the host. @throws CommandError with virsh's own words */
export function virsh(host: LabHostName, ...args: readonly string[]): Promise<string> {
  return libvirtd.virsh(HOSTS[host], args);
}

/** What the guest has written to its serial console since its domain was last started; empty before the first start. */
export async function readConsole(host: LabHostName, domain: string): Promise<string> {
  const log = join(hostDirectories(HOSTS[host]).consoles, `${domain}.log`);
  return await readFile(log, 'utf8').catch(() => '');
}

/** Where a volume of the host's pool lies for this process; the host itself calls it `${POOL.target}/${volume}`. */
export function pathInPool(host: LabHostName, volume: string): string {
  return join(hostDirectories(HOSTS[host]).pool, volume);
}

/** Fetches a file that a guest serves over HTTP, by the address it has. @throws Error on any answer but 200 */
export async function fetchFromGuest(address: string, port: number, path: string): Promise<string> {
  const response = await fetch(`http://${address}:${port}${path}`, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}`);
  return await response.text();
}

/** SIGKILL, as a crash: guests run on, every connection through it breaks. */
export const killLibvirtd = (host: LabHostName): Promise<void> => libvirtd.killLibvirtd(HOSTS[host]);
/** Returns when the daemon answers. */
export const startLibvirtd = (host: LabHostName): Promise<void> => libvirtd.startLibvirtd(HOSTS[host]);
/** New connections are refused; open ones go on. */
export const killSshd = (host: LabHostName): Promise<void> => sshd.killSshd(HOSTS[host]);
export const startSshd = (host: LabHostName): Promise<void> => sshd.startSshd(HOSTS[host]);
