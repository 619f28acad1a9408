/**
 * `npm test`: types, lint, import directions and every suite, then one true count. It exists because no runner's own
 * summary is enough: Vitest counts no failure for a file that fails to import, nor for an unhandled rejection.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { countReport, type Tally, type VitestReport } from './tally.ts';

const CHECKS = [
  { name: 'types', command: ['tsc'] },
  { name: 'lint', command: ['biome', 'ci', '--error-on-warnings'] },
  {
    name: 'import directions',
    command: ['depcruise', 'lib', 'functions', 'infra', 'test', '--config', '.dependency-cruiser.mjs'],
  },
] as const;

const SUITES = ['unit', 'contract', 'faults', 'infra'] as const;

async function main(): Promise<void> {
  const tallies: Tally[] = [];
  const withLab = process.env['LAB'] === '1';
  // The unit suite skips what it has no judge for: with the lab's packages there, it has them all.
  if (withLab && (await run(['node', 'test/lab/main.ts', 'packages'])) !== 0) {
    console.log('FAILED: the packages of the lab');
    tallies.push({ passed: 0, failed: 1 });
  }
  for (const { name, command } of CHECKS) {
    const code = await run(command);
    console.log(`${code === 0 ? 'ok' : 'FAILED'}: ${name}`);
    tallies.push({ passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 });
  }
  tallies.push(await runVitest(SUITES));
  if (withLab) tallies.push(await runVitest(['lab']));
  else
    console.log(
      'lab suite skipped: it installs packages and needs root on Debian; run it with LAB=1 npm test',
    );
  const passed = tallies.reduce((sum, tally) => sum + tally.passed, 0);
  const failed = tallies.reduce((sum, tally) => sum + tally.failed, 0);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

async function runVitest(projects: readonly string[]): Promise<Tally> {
  const folder = await mkdtemp(join(tmpdir(), 'kvm-functions-test-'));
  try {
    const report = join(folder, 'report.json');
    const code = await run([
      'vitest',
      'run',
      ...projects.flatMap((project) => ['--project', project]),
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ]);
    const text = await readFile(report, 'utf8').catch(() => null);
    return countReport(text === null ? null : (JSON.parse(text) as VitestReport), code);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Tools come from node_modules/.bin, which npm puts on the PATH of its scripts, as it does Node 24. */
function run(command: readonly string[]): Promise<number> {
  const [file = '', ...args] = command;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: 'inherit' });
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : 1));
  });
}

await main();
