/**
 * Runs contestants side by side: every round takes one sample of each, so that whatever else the machine does meanwhile
 * falls on all of them alike.
 */
import type { Series, Unit } from './judgement.ts';

export interface Contestant {
  readonly name: string;
  /** Takes one sample, in the unit of the measure. */
  readonly sample: (signal: AbortSignal) => Promise<number>;
  /** For one whose sample takes a minute: at most so many rounds, and no warm-up. */
  readonly atMostRounds?: number;
}

export interface RoundsPlan {
  readonly measure: string;
  readonly unit: Unit;
  readonly rounds: number;
  readonly contestants: readonly Contestant[];
}

export interface RunControl {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** What comes first is measured on cold caches and code that has not been compiled yet; that is not asked here. */
const WARM_UP_ROUNDS = 1;

/**
 * @returns one series for each contestant, in their order
 * @throws whatever a sample throws, with the contestant's name; the signal's reason
 */
export async function runRounds(plan: RoundsPlan, { signal, log }: RunControl): Promise<Series[]> {
  const { measure, unit, rounds, contestants } = plan;
  const samples = new Map(contestants.map(({ name }) => [name, [] as number[]]));
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    log(`${measure}: ${round < 0 ? 'warm-up' : `round ${round + 1} of ${rounds}`}`);
    for (const contestant of rotate(contestants, Math.max(0, round))) {
      const { name, atMostRounds } = contestant;
      if (atMostRounds !== undefined && (round < 0 || round >= atMostRounds)) continue;
      signal.throwIfAborted();
      const value = await takeSample(contestant, measure, signal);
      if (round >= 0) samples.get(name)?.push(value);
    }
  }
  return contestants.map(({ name }) => ({
    measure,
    contestant: name,
    unit,
    samples: samples.get(name) ?? [],
  }));
}

/** Another one goes first in every round: what follows a long upload finds the disk busy. */
function rotate<T>(items: readonly T[], by: number): readonly T[] {
  const start = items.length === 0 ? 0 : by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

async function takeSample({ name, sample }: Contestant, measure: string, signal: AbortSignal) {
  try {
    return await sample(signal);
  } catch (cause) {
    signal.throwIfAborted();
    throw new Error(`${measure}: ${name}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** The series of one contestant. @throws RangeError when it did not take part */
export function seriesOf(series: readonly Series[], contestant: string): Series {
  const found = series.find((each) => each.contestant === contestant);
  if (found === undefined) throw new RangeError(`no contestant ${contestant}`);
  return found;
}
