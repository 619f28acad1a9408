/**
 * A lab host: mount, network, PID, UTS and IPC namespaces held open by one process (host-init.sh). Its
 * processes, mounts and network end with that process, so there is nothing of it to be cleaned up one by one.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createAccounts } from './accounts.ts';
import { startInBackground } from './background.ts';
import { type RunOptions, run } from './commands.ts';
import { findProcess, type RecordedProcess } from './ledger.ts';
import { hostDirectories, type LabHost } from './topology.ts';

const INIT_SCRIPT = join(import.meta.dirname, 'host-init.sh');

/**
 * Makes the host's directories and namespaces. `devices` are the nodes below /dev that it gets besides those every Linux has.
 * @throws Error with the init script's output
 */
export async function createHost(host: LabHost, devices: readonly string[]): Promise<void> {
  const directories = hostDirectories(host);
  for (const directory of Object.values(directories)) await mkdir(directory, { recursive: true });
  await createAccounts(directories.etc);
  // libvirtd looks its own name up whenever it starts a guest.
  await writeHostFile(directories.etc, 'hosts', `127.0.0.1 localhost\n${host.address} ${host.name}\n`);
  await startInBackground(
    host.name,
    'unshare',
    ['--mount', '--net', '--pid', '--uts', '--ipc', '--fork', '--kill-child', '--mount-proc'].concat(
      ['bash', INIT_SCRIPT, host.name, directories.root],
      devices,
    ),
    'go',
  );
}

/** @throws Error when the host is not up */
export async function findHost(host: LabHost): Promise<RecordedProcess> {
  const found = await findProcess(host.name);
  if (found === null) throw new Error(`the lab host ${host.name} is not up: npm run lab -- up`);
  return found;
}

/** Runs a command inside a host, as its root, to its end. What daemonises there stays, until the host ends. */
export async function enterHost(
  host: LabHost,
  command: string,
  args: readonly string[],
  options?: RunOptions,
): Promise<string> {
  const { pid } = await findHost(host);
  // The recorded process is outside the PID namespace that it made for its child.
  const namespaces = ['--mount', '--net', '--uts', '--ipc', `--pid=/proc/${pid}/ns/pid_for_children`];
  return await run('nsenter', ['--target', String(pid), ...namespaces, '--', command, ...args], options);
}

/** Sends SIGKILL to the daemon that wrote this pid file of the host, and returns when it is gone. */
export async function killDaemon(host: LabHost, pidFile: string): Promise<void> {
  const script =
    'pid=$(cat "$1") && kill -KILL "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done';
  await enterHost(host, 'sh', ['-c', script, 'kill', pidFile]);
}

/** Writes a file that a host's daemons read, below one of its directories. */
export async function writeHostFile(
  directory: string,
  name: string,
  content: string,
  mode = 0o644,
): Promise<void> {
  const file = join(directory, name);
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, content, { mode });
}
