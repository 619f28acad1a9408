/** What the figures were taken on: without it they say nothing. */
import { readFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { run } from '../lab/commands.ts';

export type MachineDescription = Readonly<Record<string, string>>;

/** Reads hardware and versions of what takes part. A program that is not installed is left out. */
export async function describeMachine(): Promise<MachineDescription> {
  const processors = cpus();
  const memoryGiB = totalmem() / 1024 ** 3;
  const [system, libvirt, openSsh, qemu, xorriso, go, goLibvirt, goCrypto, pythonLibvirt] = await Promise.all(
    [
      readOsName(),
      firstLine('virsh', ['--version']),
      firstLine('sh', ['-c', 'ssh -V 2>&1']),
      firstLine('qemu-system-x86_64', ['--version']),
      firstLine('sh', ['-c', 'xorriso -version 2>/dev/null']),
      firstLine('go', ['version']),
      packageVersion('golang-github-digitalocean-go-libvirt-dev'),
      packageVersion('golang-golang-x-crypto-dev'),
      packageVersion('python3-libvirt'),
    ],
  );
  const facts: Record<string, string | null> = {
    processor: `${processors.length} × ${processors[0]?.model.trim() ?? 'unknown'}`,
    memory: `${memoryGiB.toFixed(0)} GiB`,
    system: `${system}, Linux ${release()}`,
    'Node.js': process.version,
    libvirt,
    OpenSSH: openSsh?.split(',')[0]?.replace('OpenSSH_', '') ?? null,
    QEMU: qemu?.replace(/^QEMU emulator version /, '').split(' ')[0] ?? null,
    'go-libvirt': goLibvirt,
    'x/crypto/ssh': goCrypto,
    Go: go?.split(' ')[2] ?? null,
    'python3-libvirt': pythonLibvirt,
    xorriso: /\d+(\.\d+)+/.exec(xorriso ?? '')?.[0] ?? null,
    'load before': loadavg()
      .map((load) => load.toFixed(2))
      .join(' '),
  };
  return Object.fromEntries(
    Object.entries(facts).filter((fact): fact is [string, string] => fact[1] !== null && fact[1] !== ''),
  );
}

/** One paragraph of Markdown. */
export function machineText(machine: MachineDescription): string {
  return Object.entries(machine)
    .map(([name, value]) => `${name}: ${value}`)
    .join(' · ');
}

async function readOsName(): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  return /^PRETTY_NAME="(.*)"$/m.exec(release)?.[1] ?? 'an unknown system';
}

async function packageVersion(name: string): Promise<string | null> {
  const line = await firstLine('dpkg-query', ['--show', name]);
  return line?.split('\t')[1] ?? null;
}

async function firstLine(command: string, args: readonly string[]): Promise<string | null> {
  const output = await run(command, args).catch(() => '');
  return output.trim().split('\n')[0] ?? null;
}
