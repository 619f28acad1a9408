/** The memory of another process, watched while it works. */
import { readFile } from 'node:fs/promises';

const EVERY_MS = 10;

/** Runs `work` and returns by how many MiB the process had grown at its largest, against what it had before. */
export async function watchGrowth<T>(
  pid: number,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly growthMiB: number }> {
  const before = await readResidentKiB(pid);
  let largest = before;
  const watch = setInterval(() => {
    void readResidentKiB(pid).then((now) => {
      largest = Math.max(largest, now);
    });
  }, EVERY_MS);
  try {
    const result = await work();
    largest = Math.max(largest, await readResidentKiB(pid));
    return { result, growthMiB: (largest - before) / 1024 };
  } finally {
    clearInterval(watch);
  }
}

/** 0 once the process is gone. */
async function readResidentKiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
}
