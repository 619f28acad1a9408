/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util';

export const MEASURES = ['session', 'list', 'create', 'upload', 'cold-start', 'seed-image'] as const;
export type MeasureName = (typeof MEASURES)[number];

export interface BenchOptions {
  readonly measures: readonly MeasureName[];
  /** Instead of each measure's own number. */
  readonly rounds: number | null;
  /** Small amounts and few rounds, to see that everything runs; its figures are not comparable. */
  readonly quick: boolean;
  /** Where all samples go, as JSON. */
  readonly jsonFile: string;
}

export const USAGE = `usage: npm run bench -- [--only MEASURE,…] [--rounds N] [--quick] [--json FILE]
  measures: ${MEASURES.join(', ')}`;

/** @throws Error whose message says what is wrong */
export function readOptions(args: readonly string[], defaultJsonFile: string): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string' },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string', default: defaultJsonFile },
    },
  });
  const names = values.only?.split(',') ?? MEASURES;
  const measures = names.map((name) => {
    const measure = MEASURES.find((known) => known === name);
    if (measure === undefined) throw new Error(`no measure ${name}`);
    return measure;
  });
  const rounds = values.rounds === undefined ? null : Number(values.rounds);
  if (rounds !== null && !(Number.isInteger(rounds) && rounds > 0)) {
    throw new Error('--rounds takes a whole number from 1 up');
  }
  return { measures, rounds, quick: values.quick, jsonFile: values.json };
}

/** How many rounds a measure gets. */
export function roundsFor(options: BenchOptions, usual: number): number {
  return options.rounds ?? (options.quick ? Math.min(usual, 3) : usual);
}
