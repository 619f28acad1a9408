/** EventBridge Scheduler's part: invokes the collector at a fixed rate, never twice at once. */
import { pause } from '../../lib/lambda/pause.ts';

const UNIT_MS: Partial<Record<string, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
const DEFAULT_EVERY_MS = 5 * 60_000;

/** `rate(5 minutes)` in milliseconds. A cron expression has no local twin: the collector then runs every five minutes. */
export function scheduleMs(expression: string | undefined): number {
  const [, count = '', unit = ''] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression ?? '') ?? [];
  return Number(count) * (UNIT_MS[unit] ?? 0) || DEFAULT_EVERY_MS;
}

export interface Schedule {
  /** Resolves when a run that has begun has ended. */
  stop(): Promise<void>;
}

export function startSchedule(everyMs: number, run: () => Promise<void>): Schedule {
  const stopping = new AbortController();
  const repeat = async () => {
    while (!stopping.signal.aborted) {
      await pause(everyMs, stopping.signal);
      if (!stopping.signal.aborted) await run();
    }
  };
  const repeating = repeat();
  return {
    stop: async () => {
      stopping.abort();
      await repeating;
    },
  };
}
