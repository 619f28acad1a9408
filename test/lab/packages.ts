/** What the lab and the unit suite's judges need of the system, from Debian's packages: installed when missing, never removed. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { run } from './commands.ts';

const PACKAGES = [
  // the hosts
  'libvirt-daemon-system',
  'libvirt-clients',
  'qemu-system-x86',
  'qemu-utils',
  'openssh-server',
  'openssh-client',
  'dnsmasq-base',
  'dbus',
  'polkitd',
  'iproute2',
  'util-linux',
  'procps',
  // the guest image
  'mmdebstrap',
  'extlinux',
  'e2fsprogs',
  'fdisk',
  'mount',
  // the judges in the unit suite: cloud-init and PyYAML of user-data, other readers of the seed image
  'cloud-init',
  'python3-yaml',
  'genisoimage',
  'xorriso',
];

/** cloud-init's own switch. On this machine it is a library for tests and must not configure anything at the next boot. */
const CLOUD_INIT_DISABLED = '/etc/cloud/cloud-init.disabled';

const INSTALL_TIMEOUT_MS = 600_000;
const POLICY_FILE = '/usr/sbin/policy-rc.d';

/** Installs the packages that are missing, without asking anything. @throws CommandError with apt's output */
export async function installPackages(
  signal: AbortSignal,
  log: (line: string) => void,
  packages: readonly string[] = PACKAGES,
): Promise<void> {
  const missing = await findMissingPackages(packages);
  if (missing.length === 0) return;
  log(`installing ${missing.join(' ')}`);
  const options = { env: { DEBIAN_FRONTEND: 'noninteractive' }, timeoutMs: INSTALL_TIMEOUT_MS, signal };
  await run('apt-get', ['update', '--quiet'], options);
  if (missing.includes('cloud-init')) {
    await mkdir(dirname(CLOUD_INIT_DISABLED), { recursive: true });
    await writeFile(CLOUD_INIT_DISABLED, '');
  }
  await withoutStartingServices(() =>
    run('apt-get', ['install', '--yes', '--quiet', '--no-install-recommends', ...missing], options),
  );
}

async function findMissingPackages(packages: readonly string[]): Promise<string[]> {
  // dpkg-query exits with 1 as soon as one of them is unknown; what it knows it prints all the same.
  const query = `dpkg-query --show --showformat '\${Package} \${db:Status-Status}\\n' "$@" 2>/dev/null || true`;
  const known = await run('sh', ['-c', query, 'query', ...packages]);
  const installed = new Set(known.split('\n').filter((line) => line.endsWith(' installed')));
  return packages.filter((name) => !installed.has(`${name} installed`));
}

/**
 * The hosts run their own daemons; on this machine a libvirtd and an open SSH port were not asked for. Debian's way to say so is a
 * policy-rc.d that answers 101; one that is there already is its administrator's decision.
 */
async function withoutStartingServices(install: () => Promise<unknown>): Promise<void> {
  const created = await writeFile(POLICY_FILE, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' }).then(
    () => true,
    () => false,
  );
  try {
    await install();
  } finally {
    if (created) await rm(POLICY_FILE, { force: true });
  }
}
