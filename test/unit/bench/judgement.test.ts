import { describe, expect, it } from 'vitest';
import { judgeMedian, judgeRatio, judgeWorst, median, type Series } from '../../bench/judgement.ts';

function series(contestant: string, samples: readonly number[], unit: Series['unit'] = 'ms'): Series {
  return { measure: 'a measure', contestant, unit, samples };
}

describe('the median', () => {
  it('is the middle by size, not by the order in which samples were taken or by their digits', () => {
    expect(median([100, 9, 20])).toBe(20);
  });

  it('is the mean of the two in the middle when there is no single one', () => {
    expect(median([4, 1, 3, 10])).toBe(3.5);
  });

  it('is not moved by one sample that was disturbed', () => {
    expect(median([10, 11, 12, 11, 9_000])).toBe(11);
  });

  it('leaves the samples in their order', () => {
    const samples = [3, 1, 2];

    median(samples);

    expect(samples).toEqual([3, 1, 2]);
  });

  it.each([[[]], [[1, Number.NaN, 2]]])('refuses %j', (samples) => {
    expect(() => median(samples)).toThrow(RangeError);
  });
});

describe('a ratio', () => {
  it('is ours to theirs, by medians', () => {
    const verdict = judgeRatio(series('ours', [30, 40, 1_000]), series('theirs', [90, 100, 80]), {
      bound: 'at most',
      value: 0.5,
    });

    expect(verdict).toMatchObject({ ours: { value: 40 }, peer: { contestant: 'theirs', value: 90 } });
    expect(verdict.ratio).toBeCloseTo(0.444, 3);
    expect(verdict.met).toBe(true);
  });

  it.each([
    { ours: 80, bound: 'at most', met: true },
    { ours: 80.4, bound: 'at most', met: false },
    { ours: 80, bound: 'at least', met: true },
    { ours: 79.6, bound: 'at least', met: false },
  ] as const)('of $ours to 100 with the target "$bound 0.8": met is $met', ({ ours, bound, met }) => {
    const verdict = judgeRatio(series('ours', [ours]), series('theirs', [100]), { bound, value: 0.8 });

    expect(verdict.met).toBe(met);
  });

  it('as a speedup says how many times as long the peer takes', () => {
    const target = { bound: 'at least', value: 20 } as const;

    const verdict = judgeRatio(series('ours', [0.5]), series('theirs', [15]), target, { speedup: true });

    expect(verdict).toMatchObject({ ratio: 30, met: true });
  });

  it('of different units, or to nothing, is refused', () => {
    const target = { bound: 'at most', value: 1 } as const;

    expect(() => judgeRatio(series('ours', [1]), series('theirs', [1], 'MB/s'), target)).toThrow(RangeError);
    expect(() => judgeRatio(series('ours', [1]), series('theirs', [0]), target)).toThrow(RangeError);
  });
});

describe('a figure without a peer', () => {
  it('is judged by the median, or by the worst sample where it must hold every time', () => {
    const growth = series('ours', [20, 70, 21], 'MiB');
    const target = { bound: 'at most', value: 64 } as const;

    expect(judgeMedian(growth, target)).toMatchObject({ ours: { value: 21 }, met: true, ratio: null });
    expect(judgeWorst(growth, target)).toMatchObject({ ours: { value: 70 }, met: false, peer: null });
  });
});
