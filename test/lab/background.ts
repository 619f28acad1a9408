/**
 * Starts and ends the processes that outlive `up`. None does anything before it is in the ledger: it waits for a
 * line on its standard input, which its starter writes once the pid is recorded; if the starter dies in between,
 * the process reads end-of-file and ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { waitUntil } from './commands.ts';
import { isRunning, type RecordedProcess, recordProcess } from './ledger.ts';
import { files } from './topology.ts';

/**
 * Starts a process in a session of its own, records it, gives it `input` as the one line it waits for, and returns the first line it
 * prints: what it says when it is ready. Its standard error goes to a log file named by its role.
 * @throws Error with the log when it ends without having printed a line
 */
export async function startInBackground(
  role: string,
  command: string,
  args: readonly string[],
  input: string,
): Promise<string> {
  await mkdir(files.logs, { recursive: true });
  const logFile = join(files.logs, `${role}.log`);
  const log = openSync(logFile, 'a');
  const child = spawn(command, args, { detached: true, cwd: '/', stdio: ['pipe', 'pipe', log] });
  closeSync(log);
  child.on('error', () => {}); // it has no pid then
  const { pid, stdin, stdout } = child;
  if (pid === undefined || stdin === null || stdout === null)
    throw new Error(`${role}: cannot start ${command}`);
  await recordProcess(role, pid);

  stdin.on('error', () => {});
  stdin.end(`${input}\n`);
  const line = await readFirstLine(stdout);
  if (line === null) throw new Error(`${role} did not start:\n${await readFile(logFile, 'utf8')}`);
  stdout.destroy();
  child.unref();
  return line;
}

/** Kills a recorded process if it still is the same one, and waits until it is gone. May be repeated. */
export async function endProcess(recorded: RecordedProcess): Promise<void> {
  if (!(await isRunning(recorded))) return;
  const target = await findWhatKeepsItUp(recorded.pid);
  try {
    process.kill(target, 'SIGKILL');
  } catch {
    // It has ended in between; what follows finds out.
  }
  await waitUntil(
    `end of ${recorded.role} (pid ${recorded.pid})`,
    async () => !(await isRunning(recorded)),
    30_000,
  );
}

/**
 * A host is recorded as the `unshare` that made its namespaces, whose one child is the init process of the PID namespace. The kernel
 * ends an init only after everything in its namespace, and `unshare` ends after its child: killing the init and waiting for
 * `unshare` leaves nothing of the host running.
 */
async function findWhatKeepsItUp(pid: number): Promise<number> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const child = Number.parseInt(children, 10);
  return Number.isNaN(child) ? pid : child;
}

async function readFirstLine(output: Readable): Promise<string | null> {
  const lines = createInterface({ input: output });
  const [line] = await Promise.race([once(lines, 'line'), once(lines, 'close').then(() => [null])]);
  return typeof line === 'string' ? line : null;
}
