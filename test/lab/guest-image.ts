/**
 * The guest image: built once from the machine's own package sources, cached by its recipe. Nothing here names a
 * mirror: apt knows which ones this machine uses and how it reaches them.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './commands.ts';
import { CACHE_DIRECTORY, IMAGE_NAME } from './topology.ts';

export interface GuestImage {
  readonly file: string;
  readonly sha256: string;
}

interface Distribution {
  readonly origin: 'Debian' | 'Ubuntu';
  readonly codename: string;
  readonly kernelPackage: string;
}

const BUILD_SCRIPT = join(import.meta.dirname, 'build-guest-image.sh');
const BUILD_TIMEOUT_MS = 900_000;
const BUILD_PREFIX = 'build-';

/**
 * The cached image; built first when there is none of this recipe and release. A build that fails or is aborted leaves nothing.
 * @throws CommandError with the end of the build's output
 */
export async function provideGuestImage(
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<GuestImage> {
  const distribution = await readDistribution();
  const recipe = createHash('sha256')
    .update(await readFile(BUILD_SCRIPT))
    .update(JSON.stringify(distribution));
  const file = join(CACHE_DIRECTORY, `${IMAGE_NAME}-${recipe.digest('hex').slice(0, 12)}.qcow2`);
  if (!(await exists(file))) {
    log('building the guest image (once, about a minute)');
    await buildGuestImage(distribution, file, signal);
  }
  return { file, sha256: await digestFile(file) };
}

async function buildGuestImage(distribution: Distribution, file: string, signal: AbortSignal): Promise<void> {
  await mkdir(CACHE_DIRECTORY, { recursive: true });
  await clearCache();
  const work = await mkdtemp(join(CACHE_DIRECTORY, BUILD_PREFIX));
  try {
    const aptOptions = join(work, 'apt.conf');
    await writeFile(aptOptions, await readAcquireOptions());
    const sources = await findSourceFiles(distribution, signal);
    const script = [
      BUILD_SCRIPT,
      work,
      distribution.codename,
      distribution.kernelPackage,
      aptOptions,
      ...sources,
    ];
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    await run('unshare', [...namespaces, 'bash', ...script], {
      timeoutMs: BUILD_TIMEOUT_MS,
      signal,
      killSignal: 'SIGKILL', // unshare ignores others while its child runs, and takes the child along
    });
    await rename(join(work, 'image.qcow2'), file);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Builds that were killed, and images of other recipes. */
async function clearCache(): Promise<void> {
  for (const name of await readdir(CACHE_DIRECTORY)) {
    if (name.startsWith(BUILD_PREFIX) || name.startsWith(`${IMAGE_NAME}-`)) {
      await rm(join(CACHE_DIRECTORY, name), { recursive: true });
    }
  }
}

/** @throws Error on a system that is neither Debian nor Ubuntu */
async function readDistribution(): Promise<Distribution> {
  const release = await readFile('/etc/os-release', 'utf8');
  const field = (name: string) => new RegExp(`^${name}="?([^"\\n]*)"?$`, 'm').exec(release)?.[1] ?? '';
  const codename = field('VERSION_CODENAME');
  if (field('ID') === 'debian')
    return { origin: 'Debian', codename, kernelPackage: 'linux-image-cloud-amd64' };
  if (field('ID') === 'ubuntu') return { origin: 'Ubuntu', codename, kernelPackage: 'linux-image-virtual' };
  throw new Error(`the lab needs Debian or Ubuntu, and this is ${field('ID') || 'neither'}`);
}

/** The sources files that name the distribution's own archive; those of other vendors have no place in the guest. */
async function findSourceFiles(distribution: Distribution, signal: AbortSignal): Promise<string[]> {
  const filters = ['Created-By: Packages', `Origin: ${distribution.origin}`];
  const list = async () => {
    const entries = await run('apt-get', ['indextargets', '--format', '$(SOURCESENTRY)', ...filters]);
    return [...new Set(entries.split('\n').map((entry) => entry.replace(/:\d+$/, '')))].filter(
      (name) => name !== '',
    );
  };
  const found = await list();
  if (found.length > 0) return found;
  await run('apt-get', ['update', '--quiet'], { timeoutMs: 300_000, signal }); // the origin stands in the archive's own release file
  const updated = await list();
  if (updated.length === 0) throw new Error(`apt has no source of origin ${distribution.origin}`);
  return updated;
}

/** How this machine's apt fetches (proxies, time-outs, certificates), for an apt that reads another configuration directory. */
async function readAcquireOptions(): Promise<string> {
  const options = (await run('apt-config', ['dump'])).split('\n');
  const wanted = options.filter(
    (line) => line.startsWith('Acquire::') && !line.startsWith('Acquire::IndexTargets'),
  );
  return `${wanted.filter((line) => !line.endsWith(' "";')).join('\n')}\n`;
}

async function digestFile(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
