/**
 * What the lab suite sees and does from outside the product: the host as its administrator sees it, the guest's
 * console, files that a guest serves, and daemons that die. Hosts are named as in the configuration.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../lib/config/parse-config.ts';
import { baseVolumeName } from '../../lib/image/image-source.ts';
import { run } from './commands.ts';
import * as libvirtd from './libvirtd.ts';
import * as sshd from './sshd.ts';
import { files, HOSTS, hostDirectories, IMAGE_NAME, type LabHostName, POOL } from './topology.ts';

export { files, HOSTS, IMAGE_NAME, type LabHostName, POOL, PREFIX_LENGTH } from './topology.ts';

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

/**
 * The files on a VM's seed as xorriso reads them there.
 * @throws Error when the VM has not exactly one seed in the host's pool
 */
export async function readSeed(host: LabHostName, domain: string): Promise<ReadonlyMap<string, Buffer>> {
  const volumes = await readdir(hostDirectories(HOSTS[host]).pool);
  const [seed, another] = volumes.filter((name) => name.includes(`_${domain}_`) && name.endsWith('.seed'));
  if (seed === undefined || another !== undefined) throw new Error(`${host}/${domain} has not one seed`);
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-seed-'));
  try {
    const target = join(folder, 'files');
    await run('xorriso', ['-osirrox', 'on', '-indev', pathInPool(host, seed), '-extract', '/', target]);
    const contents = new Map<string, Buffer>();
    for (const name of (await readdir(target)).toSorted())
      contents.set(name, await readFile(join(target, name)));
    return contents;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** As if no VM had ever been made of it there. */
export async function forgetGuestImage(host: LabHostName): Promise<void> {
  const loaded = loadConfig(files.config);
  const image = loaded.ok ? loaded.config.images[IMAGE_NAME] : undefined;
  if (image === undefined) throw new Error(`${files.config} names no ${IMAGE_NAME}`);
  const { url, format, checksum } = image;
  const base = baseVolumeName({ name: IMAGE_NAME, url, format, checksum });
  for (const volume of await readdir(hostDirectories(HOSTS[host]).pool)) {
    if (volume.startsWith(`${base}.`)) await virsh(host, 'vol-delete', '--pool', POOL.name, volume);
  }
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
