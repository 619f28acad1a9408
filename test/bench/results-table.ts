/** The results as Markdown, to be read in a terminal and pasted as they are. Pure. */
import { type Figure, median, type Series, type Unit, type Verdict } from './judgement.ts';

/** This project against its peers, one line for each target. */
export function verdictTable(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map(({ measure, ours, peer, ratio, target, met }) => {
    const sign = target.bound === 'at most' ? '≤' : '≥';
    const limit = ratio === null ? withUnit(target.value, ours.unit) : `${target.value} ×`;
    return [
      measure,
      withUnit(ours.value, ours.unit),
      peer === null ? '' : describePeer(peer),
      ratio === null ? '' : `${significant(ratio)} ×`,
      `${sign} ${limit}`,
      met ? 'met' : '**missed**',
    ];
  });
  return markdownTable(['measure', 'this project', 'peer', 'ratio', 'target', ''], 'lllrrl', rows);
}

/** Everybody's median and how far the samples lie apart. */
export function seriesTable(series: readonly Series[]): string {
  const rows = series.map(({ measure, contestant, unit, samples }) => [
    measure,
    contestant,
    withUnit(median(samples), unit),
    `${quantity(Math.min(...samples), unit)} – ${quantity(Math.max(...samples), unit)}`,
    `${samples.length}`,
  ]);
  return markdownTable(['measure', 'contestant', 'median', 'from – to', 'samples'], 'llrrr', rows);
}

/** @param alignment one letter for each column, `l` or `r` */
export function markdownTable(
  header: readonly string[],
  alignment: string,
  rows: readonly (readonly string[])[],
): string {
  const cells = [header, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = header.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const isRight = (column: number) => alignment[column] === 'r';
  const line = (row: readonly string[]) => {
    const padded = widths.map((width, column) => {
      const cell = row[column] ?? '';
      return isRight(column) ? cell.padStart(width) : cell.padEnd(width);
    });
    return `| ${padded.join(' | ')} |`;
  };
  const rule = widths.map((width, column) =>
    isRight(column) ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  );
  const [head = [], ...body] = cells;
  return [line(head), line(rule), ...body.map(line)].join('\n');
}

function describePeer({ contestant, value, unit }: Figure): string {
  return `${contestant}: ${withUnit(value, unit)}`;
}

function withUnit(value: number, unit: Unit): string {
  return `${quantity(value, unit)} ${unit}`;
}

/** Whole numbers from 10 up, else two significant digits: more would be noise. */
function quantity(value: number, unit: Unit): string {
  return unit === 'ms' && value < 10 ? significant(value) : value.toFixed(value < 10 ? 1 : 0);
}

/** At least two digits that count, and never the notation with an exponent. */
function significant(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  if (value >= 0.1 || value <= 0) return value.toFixed(2);
  return value.toFixed(Math.min(6, 1 - Math.floor(Math.log10(value))));
}
