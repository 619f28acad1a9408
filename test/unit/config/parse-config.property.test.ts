import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { parseConfig } from '../../../lib/config/parse-config.ts';
import { SAMPLE } from './sample-config.ts';

const SEED = 20_260_131;

/** Every place in the sample, as a path of keys and indexes. */
function pathsOf(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  const entries: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  return [path, ...entries.flatMap(([key, inner]) => pathsOf(inner, [...path, key]))];
}

function replaceAt(
  value: unknown,
  [key, ...rest]: readonly (string | number)[],
  replacement: unknown,
): unknown {
  if (key === undefined) return replacement;
  if (Array.isArray(value))
    return value.map((item, at) => (at === key ? replaceAt(item, rest, replacement) : item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      name === key ? replaceAt(inner, rest, replacement) : inner,
    ]),
  );
}

function expectAnAnswer(text: string): void {
  const result = parseConfig(text, { file: 'config.yaml', use: 'synth', readText: () => '' });
  if (result.ok) return;
  const lines = text.split('\n').length;
  expect(result.faults.length).toBeGreaterThan(0);
  for (const { line, detail } of result.faults) {
    expect(detail).not.toBe('');
    expect(line).toBeGreaterThanOrEqual(1);
    expect(line).toBeLessThanOrEqual(lines);
  }
}

describe('parseConfig answers, and never throws,', () => {
  const sample: unknown = parse(SAMPLE);

  it('whatever value stands at whatever place', () => {
    fc.assert(
      fc.property(fc.constantFrom(...pathsOf(sample)), fc.jsonValue(), (path, value) => {
        expectAnAnswer(stringify(replaceAt(sample, path, value)));
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });

  it('wherever the file is cut off', () => {
    for (let end = 0; end <= SAMPLE.length; end += 1) expectAnAnswer(SAMPLE.slice(0, end));
  });

  it('whatever text is in the file', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), expectAnAnswer), { seed: SEED, numRuns: 2000 });
  });

  it('with the lines of a file written on Windows, and with a byte order mark', () => {
    const windows = parseConfig(`\uFEFF${SAMPLE.replaceAll('\n', '\r\n')}`, {
      file: 'config.yaml',
      use: 'synth',
    });

    expect(windows).toEqual(parseConfig(SAMPLE, { file: 'config.yaml', use: 'synth' }));
  });
});
