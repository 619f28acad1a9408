/**
 * `npm run bench`: this project side by side with what else does the same, on a real sshd and libvirtd. The result is
 * Markdown on the standard output; what is going on is told on the standard error.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bringUp, readStatus, takeDown } from '../lab/lifecycle.ts';
import { openBenchHost } from './bench-host.ts';
import { removeVms, startVm } from './bench-vms.ts';
import { measureColdStarts } from './cold-start.ts';
import { measureCreates } from './create-speed.ts';
import type { Measurement } from './judgement.ts';
import { measureLists } from './list-speed.ts';
import { describeMachine } from './machine.ts';
import { openNetworkWays } from './network-ways.ts';
import { type BenchOptions, readOptions, USAGE } from './options.ts';
import { installPeers } from './packages.ts';
import { buildPeers } from './peers/contestants.ts';
import { reportJson, reportText } from './report.ts';
import type { RunControl } from './rounds.ts';
import { measureSeedImages } from './seed-image-speed.ts';
import { measureSessions } from './session-speed.ts';
import { measureUploads } from './upload-speed.ts';

const RESULTS = join(import.meta.dirname, '.results');

async function bench(options: BenchOptions, control: RunControl): Promise<void> {
  const startedAt = new Date();
  await installPeers(control.signal, control.log);
  const machine = await describeMachine();
  const parts: Measurement[] = [];
  let delayedRoundTripMs: number | null = null;
  const takes = (measure: BenchOptions['measures'][number]) => options.measures.includes(measure);

  if ((['session', 'list', 'create', 'upload'] as const).some(takes)) {
    const onHost = await measureOnHost(options, control);
    parts.push(onHost.measurement);
    delayedRoundTripMs = onHost.roundTripMs;
  }
  if (takes('cold-start')) parts.push(await measureColdStarts(options, control));
  if (takes('seed-image')) parts.push(await measureSeedImages(options, control));

  const run = { startedAt, options, machine, delayedRoundTripMs, measurement: combine(parts) };
  await mkdir(dirname(options.jsonFile), { recursive: true });
  await writeFile(options.jsonFile, reportJson(run));
  control.log(`all samples: ${options.jsonFile}`);
  process.stdout.write(reportText(run));
}

/** What needs a host: everything is set up on it, and taken away again, however this ends. */
async function measureOnHost(options: BenchOptions, control: RunControl) {
  await using _lab = await useLab(control);
  control.log('building the peers');
  const programs = await buildPeers();
  await using host = await openBenchHost();
  await using ways = await openNetworkWays(host);
  await using session = await host.connect();
  const remove = () => removeVms(session.connection);
  await remove(); // of a run that was killed
  await using _vms = { [Symbol.asyncDispose]: remove };
  const vmName = await startVm(session.connection);

  const shared = { host, ways, programs, vmName };
  const parts: Measurement[] = [];
  for (const measure of options.measures) {
    if (measure === 'session') parts.push(await measureSessions(shared, options, control));
    if (measure === 'list') parts.push(await measureLists(shared, options, control));
    if (measure === 'create') parts.push(await measureCreates(shared, options, control));
    if (measure === 'upload') parts.push(await measureUploads(shared, options, control));
  }
  return { measurement: combine(parts), roundTripMs: ways.measuredMs };
}

/** A lab that is up stays up. */
async function useLab({ signal, log }: RunControl): Promise<AsyncDisposable> {
  const isUp = (await readStatus()).every(({ up }) => up);
  if (isUp) return { [Symbol.asyncDispose]: async () => {} };
  await bringUp(signal, log);
  return { [Symbol.asyncDispose]: takeDown };
}

function combine(parts: readonly Measurement[]): Measurement {
  return {
    series: parts.flatMap(({ series }) => series),
    verdicts: parts.flatMap(({ verdicts }) => verdicts),
  };
}

/**
 * Ctrl-C ends the measures and clears up. Further ones change nothing: npm passes on the one that the terminal has sent
 * already, and the second must not end the clearing up.
 */
function abortOnSignals(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => controller.abort(new Error(`interrupted by ${name}`)));
  }
  return controller.signal;
}

async function main(): Promise<number> {
  let options: BenchOptions;
  try {
    const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
    options = readOptions(process.argv.slice(2), join(RESULTS, `${stamp}.json`));
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  if (process.getuid?.() !== 0) {
    console.error('bench: needs root, for the lab and for installing the peers');
    return 1;
  }
  const log = (line: string) => console.error(`bench: ${line}`);
  try {
    await bench(options, { signal: abortOnSignals(), log });
    return 0;
  } catch (error) {
    log(describe(error));
    return 1;
  }
}

/** A failure to clear up hides neither itself nor what came before it. */
function describe(error: unknown): string {
  if (error instanceof SuppressedError) {
    return `${describe(error.suppressed)}\nbench: and then: ${describe(error.error)}`;
  }
  return error instanceof Error ? error.message : String(error);
}

process.exitCode = await main();
