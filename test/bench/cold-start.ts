/** How large every function's bundle is, and how long a new process takes until its handler can be called. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bundle, bundleFunction, functionNames } from '../../infra/bundle.ts';
import { run } from '../lab/commands.ts';
import { judgeMedian, type Measurement, median, type Series, type Verdict } from './judgement.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import { type Contestant, type RunControl, runRounds, seriesOf } from './rounds.ts';

const ROUNDS = 15;
const MEASURE = 'cold start';
/** What every start costs, whatever is loaded: subtracted from the others. */
const NOTHING = 'node -e 0';

/** As the Lambda runtime does it: require the file and take its handler. The clock began with Node's own start. */
const START = `
const { handler } = require(process.argv[1]);
if (typeof handler !== 'function') throw new Error('no handler');
console.log(performance.now());`;

export async function measureColdStarts(options: BenchOptions, control: RunControl): Promise<Measurement> {
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-cold-'));
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
  const bundles: Bundle[] = [];
  for (const name of await functionNames()) bundles.push(await bundleFunction(name, join(folder, name)));

  const contestants = bundles.map(({ name, file }) => start(name, ['-e', START, file]));
  const series = await runRounds(
    {
      measure: MEASURE,
      unit: 'ms',
      rounds: roundsFor(options, ROUNDS),
      contestants: [start(NOTHING, ['-e', 'console.log(performance.now())']), ...contestants],
    },
    control,
  );
  const nothing = median(seriesOf(series, NOTHING).samples);
  const loads = bundles.map(({ name }) => {
    const { samples } = seriesOf(series, name);
    return {
      ...seriesOf(series, name),
      measure: `${MEASURE} beyond Node's own`,
      samples: samples.map((ms) => ms - nothing),
    };
  });
  const sizes = bundles.map(
    ({ name, bytes }): Series => ({
      measure: 'bundle',
      contestant: name,
      unit: 'kB',
      samples: [bytes / 1000],
    }),
  );
  const worst = (all: readonly Series[], value: number): Verdict => {
    const slowest = [...all].sort((a, b) => median(b.samples) - median(a.samples))[0];
    if (slowest === undefined) throw new Error('there are no functions');
    const measure = `${slowest.measure}, the largest: ${slowest.contestant}`;
    return judgeMedian({ ...slowest, measure }, { bound: 'at most', value });
  };
  return {
    series: [...sizes, seriesOf(series, NOTHING), ...loads],
    verdicts: [worst(sizes, 1000), worst(loads, 150)],
  };
}

function start(name: string, args: readonly string[]): Contestant {
  // Nothing of this process's own environment: npm's options would be read by every Node that starts.
  const env = { NODE_OPTIONS: '', NODE_COMPILE_CACHE: '' };
  return {
    name,
    sample: async (signal) => Number(await run(process.execPath, args, { env, signal })),
  };
}
