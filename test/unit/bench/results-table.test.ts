import { describe, expect, it } from 'vitest';
import { judgeMedian, judgeRatio, type Series } from '../../bench/judgement.ts';
import { markdownTable, seriesTable, verdictTable } from '../../bench/results-table.ts';

function series(contestant: string, samples: readonly number[], unit: Series['unit'] = 'ms'): Series {
  return { measure: 'session', contestant, unit, samples };
}

describe('a table', () => {
  it('is Markdown whose columns also line up in a terminal', () => {
    const table = markdownTable(['name', 'n'], 'lr', [
      ['a', '1'],
      ['longer', '1,000'],
    ]);

    expect(table.split('\n')).toEqual([
      '| name   |     n |',
      '| ------ | ----: |',
      '| a      |     1 |',
      '| longer | 1,000 |',
    ]);
  });

  it('keeps a cell with a bar in one piece', () => {
    const table = markdownTable(['command'], 'l', [['a | b']]);

    expect(table.split('\n').at(-1)).toBe('| a \\| b  |');
  });
});

describe('the verdicts', () => {
  it('name the peer, the ratio, the target, and whether it is met', () => {
    const verdicts = [
      judgeRatio(series('ours', [61.4]), series('go-libvirt', [88]), { bound: 'at most', value: 0.8 }),
      judgeRatio(series('ours', [190], 'MB/s'), series('ssh', [210], 'MB/s'), {
        bound: 'at least',
        value: 1,
      }),
      judgeMedian(series('ours', [848.2], 'kB'), { bound: 'at most', value: 1000 }),
    ];

    const cells = verdictTable(verdicts)
      .split('\n')
      .slice(2)
      .map((line) => line.split('|').map((cell) => cell.trim()));

    expect(cells).toEqual([
      ['', 'session', '61 ms', 'go-libvirt: 88 ms', '0.70 ×', '≤ 0.8 ×', 'met', ''],
      ['', 'session', '190 MB/s', 'ssh: 210 MB/s', '0.90 ×', '≥ 1 ×', '**missed**', ''],
      ['', 'session', '848 kB', '', '', '≤ 1000 kB', 'met', ''],
    ]);
  });

  it('show a small ratio with two digits that count', () => {
    const verdict = judgeRatio(series('ours', [353]), series('go-libvirt', [63_100]), {
      bound: 'at most',
      value: 0.01,
    });

    expect(verdictTable([verdict])).toContain('| 0.0056 × |');
  });
});

it('shows how far the samples lie apart, and how many there are', () => {
  const table = seriesTable([series('ours', [0.21, 0.25, 0.4]), series('virsh', [360, 350, 410])]);

  expect(table).toContain('0.25 ms | 0.21 – 0.40 |');
  expect(table).toContain('360 ms |   350 – 410 |       3 |');
});
