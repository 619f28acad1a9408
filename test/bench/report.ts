/** What a run prints at its end: Markdown that can be pasted as it is. Pure. */
import type { Measurement } from './judgement.ts';
import { type MachineDescription, machineText } from './machine.ts';
import { ROUND_TRIP_MS } from './network-ways.ts';
import type { BenchOptions } from './options.ts';
import { seriesTable, verdictTable } from './results-table.ts';

export interface BenchRun {
  readonly startedAt: Date;
  readonly options: BenchOptions;
  readonly machine: MachineDescription;
  /** Null when no measure went through the proxy. */
  readonly delayedRoundTripMs: number | null;
  readonly measurement: Measurement;
}

export function reportText(run: BenchRun): string {
  const { series, verdicts } = run.measurement;
  const missed = verdicts.filter(({ met }) => !met).length;
  const parts = [
    `${machineText(run.machine)} · ${run.startedAt.toISOString().slice(0, 10)}`,
    verdictTable(verdicts),
    `${verdicts.length - missed} of ${verdicts.length} targets met. Medians, taken side by side in one run.`,
    seriesTable(series),
  ];
  if (run.delayedRoundTripMs !== null) {
    const measured = run.delayedRoundTripMs.toFixed(1);
    parts.splice(3, 0, `The ${ROUND_TRIP_MS} ms are a proxy's; a round trip through it took ${measured} ms.`);
  }
  if (run.options.quick) parts.unshift('**--quick: small amounts and few rounds; not figures to compare.**');
  return `${parts.join('\n\n')}\n`;
}

export function reportJson(run: BenchRun): string {
  return `${JSON.stringify(run, null, 2)}\n`;
}
