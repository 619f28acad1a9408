/** From samples to a judgement: medians, the ratio of two contestants, and whether a target is met. Pure. */

export type Unit = 'ms' | 'MB/s' | 'MiB' | 'kB';

/** All samples that one contestant gave for one measure. */
export interface Series {
  readonly measure: string;
  readonly contestant: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
}

export interface Target {
  readonly bound: 'at most' | 'at least';
  readonly value: number;
}

/** One line of the comparison: a ratio to a peer (`peer` is set), or a figure of this project alone. */
export interface Verdict {
  readonly measure: string;
  readonly ours: Figure;
  readonly peer: Figure | null;
  /** Without a peer it is the figure itself. */
  readonly ratio: number | null;
  readonly target: Target;
  readonly met: boolean;
}

export interface Figure {
  readonly contestant: string;
  readonly value: number;
  readonly unit: Unit;
}

/** What one measure brought. */
export interface Measurement {
  readonly series: readonly Series[];
  readonly verdicts: readonly Verdict[];
}

/** The mean of the two in the middle when their number is even. @throws RangeError for none, or one that is no number */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('no samples: there is no median');
  if (!sorted.every(Number.isFinite)) throw new RangeError('a sample is not a number');
  return (lower + upper) / 2;
}

/**
 * Compares medians. The ratio is ours to theirs, so below 1 is better for a time and above 1 for a rate; `speedup` turns
 * it round: how many times as long the peer takes.
 * @throws RangeError for different units, no samples, or a peer's median of zero
 */
export function judgeRatio(
  ours: Series,
  peer: Series,
  target: Target,
  { speedup = false }: { readonly speedup?: boolean } = {},
): Verdict {
  if (ours.unit !== peer.unit) throw new RangeError(`${ours.unit} and ${peer.unit} cannot be compared`);
  const [our, their] = [figureOf(ours), figureOf(peer)];
  const ratio = speedup ? their.value / our.value : our.value / their.value;
  if (!Number.isFinite(ratio)) throw new RangeError(`${ours.measure}: a median of zero`);
  return { measure: ours.measure, ours: our, peer: their, ratio, target, met: isMet(ratio, target) };
}

/** Judges the median of a series by itself. */
export function judgeMedian(series: Series, target: Target): Verdict {
  return judgeFigure(series.measure, figureOf(series), target);
}

/** Judges the worst sample: what must hold every time, not half of the time. */
export function judgeWorst(series: Series, target: Target): Verdict {
  const extreme = target.bound === 'at most' ? Math.max : Math.min;
  const value = extreme(...series.samples);
  return judgeFigure(series.measure, { ...figureOf(series), value }, target);
}

function judgeFigure(measure: string, figure: Figure, target: Target): Verdict {
  return { measure, ours: figure, peer: null, ratio: null, target, met: isMet(figure.value, target) };
}

function figureOf({ contestant, unit, samples }: Series): Figure {
  return { contestant, unit, value: median(samples) };
}

/** By the figure itself and not by its rounded text: 0.804 is not "at most 0.8". */
function isMet(value: number, { bound, value: limit }: Target): boolean {
  return bound === 'at most' ? value <= limit : value >= limit;
}
