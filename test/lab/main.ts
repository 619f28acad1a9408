/**
 * `npm run lab -- up | down | status | packages`: real KVM hosts on one machine, for the lab suite and for trying the local
 * API by hand.
 */
import { bringUp, readStatus, takeDown } from './lifecycle.ts';
import { installPackages } from './packages.ts';
import { files } from './topology.ts';

const USAGE = 'usage: npm run lab -- up | down | status | packages';
/** As for a service that is not running (LSB). */
const EXIT_NOT_UP = 3;

const log = (line: string) => console.log(`lab: ${line}`);

/** Ctrl-C and a cancelled CI job take down what is half up, instead of leaving it. */
function abortOnSignals(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => controller.abort(new Error(`interrupted by ${name}`)));
  }
  return controller.signal;
}

async function main(command: string | undefined): Promise<number> {
  if (process.getuid?.() !== 0) {
    console.error('lab: needs root, for namespaces and network devices');
    return 1;
  }
  if (command === 'up') {
    await bringUp(abortOnSignals(), log);
    log(`up: npm start -- --config ${files.config}`);
    return 0;
  }
  if (command === 'packages') {
    await installPackages(abortOnSignals(), log);
    return 0;
  }
  if (command === 'down') {
    await takeDown();
    log('down');
    return 0;
  }
  if (command === 'status') {
    const parts = await readStatus();
    for (const { part, up } of parts) log(`${part} ${up ? 'up' : 'down'}`);
    return parts.every(({ up }) => up) ? 0 : EXIT_NOT_UP;
  }
  console.error(USAGE);
  return 2;
}

try {
  process.exitCode = await main(process.argv[2]);
} catch (error) {
  console.error(`lab: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
