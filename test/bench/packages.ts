/** The peers, from Debian's packages: installed when missing, never removed. */
import { installPackages } from '../lab/packages.ts';

const PACKAGES = [
  'libvirt-clients',
  'openssh-client',
  'xorriso',
  'python3-libvirt',
  'golang-go',
  'golang-github-digitalocean-go-libvirt-dev',
  'golang-golang-x-crypto-dev',
];

/** @throws CommandError with apt's output */
export async function installPeers(signal: AbortSignal, log: (line: string) => void): Promise<void> {
  await installPackages(signal, log, PACKAGES);
}
