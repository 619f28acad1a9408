import { describe, expect, it } from 'vitest';
import { runRounds, seriesOf } from '../../bench/rounds.ts';

const quiet = { signal: new AbortController().signal, log: () => undefined };

/** Each sample is the number of the call, so that a series shows which ones it kept. */
function contestant(name: string, calls: string[], atMostRounds?: number) {
  let count = 0;
  return {
    name,
    sample: async () => {
      calls.push(name);
      return count++;
    },
    ...(atMostRounds === undefined ? {} : { atMostRounds }),
  };
}

function plan(contestants: Parameters<typeof runRounds>[0]['contestants'], rounds = 3) {
  return { measure: 'a measure', unit: 'ms', rounds, contestants } as const;
}

describe('rounds', () => {
  it('take one sample of everybody each, another one first every time, and keep nothing of the warm-up', async () => {
    const calls: string[] = [];

    const series = await runRounds(plan([contestant('a', calls), contestant('b', calls)]), quiet);

    expect(calls).toEqual(['a', 'b', 'a', 'b', 'b', 'a', 'a', 'b']);
    expect(series.map(({ samples }) => samples)).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
  });

  it('ask a slow contestant only as often as it allows, and never in the warm-up', async () => {
    const calls: string[] = [];

    const series = await runRounds(plan([contestant('a', calls), contestant('slow', calls, 1)]), quiet);

    expect(seriesOf(series, 'slow').samples).toEqual([0]);
    expect(seriesOf(series, 'a').samples).toEqual([1, 2, 3]);
  });

  it('end with the first failure and say whose it was', async () => {
    const failing = { name: 'virsh', sample: () => Promise.reject(new Error('no such domain')) };

    await expect(runRounds(plan([failing]), quiet)).rejects.toThrow('a measure: virsh: no such domain');
  });

  it('end with the reason of an interruption, not with what it made fail', async () => {
    const interrupt = new AbortController();
    const interrupted = {
      name: 'a',
      sample: async () => {
        interrupt.abort(new Error('interrupted by SIGINT'));
        throw new Error('the peer has ended');
      },
    };

    const run = runRounds(plan([interrupted]), { ...quiet, signal: interrupt.signal });

    await expect(run).rejects.toThrow('interrupted by SIGINT');
  });
});
