/**
 * Remembers which processes the lab has started, outside the working copy: a lab whose directory was deleted, or
 * that another clone has brought up, can still be taken down by process id. A pid alone is no identity (it is
 * used again), hence start time and boot id.
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { RUN_DIRECTORY } from './topology.ts';

const recordedProcess = z.object({
  role: z.string(),
  pid: z.int().positive(),
  /** Clock ticks since boot, field 22 of /proc/PID/stat. */
  startTime: z.string(),
  bootId: z.string(),
  /** The run directory that belongs to it: of this clone, or of another one. */
  runDirectory: z.string(),
});

export type RecordedProcess = Readonly<z.infer<typeof recordedProcess>>;

/** One file per process: hosts are started at the same time, and no entry may be lost to another's. */
const LEDGER_DIRECTORY = '/run/kvmfn-lab';

/** Every process recorded on this machine, also those that have ended since. */
export async function readLedger(): Promise<RecordedProcess[]> {
  const names = await readdir(LEDGER_DIRECTORY).catch(() => []);
  const entries = names.filter((name) => name.endsWith('.json'));
  return await Promise.all(
    entries.map(async (name) =>
      recordedProcess.parse(JSON.parse(await readFile(join(LEDGER_DIRECTORY, name), 'utf8'))),
    ),
  );
}

/** @throws Error when the process has ended already */
export async function recordProcess(role: string, pid: number): Promise<void> {
  const [startTime, bootId] = await Promise.all([readStartTime(pid), readBootId()]);
  if (startTime === null) throw new Error(`${role} (pid ${pid}) ended as soon as it was started`);
  const entry: RecordedProcess = { role, pid, startTime, bootId, runDirectory: RUN_DIRECTORY };
  await mkdir(LEDGER_DIRECTORY, { recursive: true, mode: 0o700 });
  const file = join(LEDGER_DIRECTORY, `${role}.json`);
  await writeFile(`${file}.new`, JSON.stringify(entry));
  await rename(`${file}.new`, file);
}

/** The process recorded for this role, if it runs. */
export async function findProcess(role: string): Promise<RecordedProcess | null> {
  const recorded = (await readLedger()).find((process) => process.role === role);
  return recorded !== undefined && (await isRunning(recorded)) ? recorded : null;
}

/** Whether this very process runs: not another one that got its number, and not its unreaped remains. */
export async function isRunning(recorded: RecordedProcess): Promise<boolean> {
  return (
    recorded.bootId === (await readBootId()) && recorded.startTime === (await readStartTime(recorded.pid))
  );
}

export async function removeLedger(): Promise<void> {
  await rm(LEDGER_DIRECTORY, { recursive: true, force: true });
}

async function readStartTime(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return null;
  // The command's name stands in parentheses and may contain anything; the state is the first field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? null : (fields[19] ?? null);
}

async function readBootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
