/**
 * `npm run doctor -- --config FILE [--host NAME]`: the report of `GET /hosts/{host}/health` from where this runs, one line
 * for each check. Exit code 1 when one fails, 2 when the command or the configuration is wrong.
 */
import { parseArgs } from 'node:util';
import { formatFault } from '../../lib/config/fault.ts';
import { loadConfig } from '../../lib/config/parse-config.ts';
import type { Config } from '../../lib/config/schema.ts';
import { resolveSecrets, SecretError } from '../../lib/config/secrets.ts';
import { createHostExaminer } from '../../lib/kvm/doctor/examine-host.ts';
import { createProber } from '../../lib/lambda/host-dialer.ts';
import { createSecretReader } from '../../lib/lambda/secret-reader.ts';
import { HOST_CHECKS, type HostCheck, type HostHealth } from '../../lib/provider/host-health.ts';

const USAGE = 'usage: npm run doctor -- --config FILE [--host NAME]';
/** For all hosts together, which are examined at once. */
const TIME_LIMIT_MS = 60_000;
const EXIT = { fault: 1, usage: 2 } as const;

/** What the person at the terminal can put right: said in words, without a stack. */
class UsageError extends Error {}

async function main(): Promise<void> {
  const { file, only } = readArguments();
  const config = readConfig(file);
  const hosts = config.hosts.filter(({ name }) => only === undefined || name === only);
  if (hosts.length === 0) {
    throw new UsageError(
      `there is no host ${only}; there are: ${config.hosts.map(({ name }) => name).join(', ')}`,
    );
  }
  const secrets = await resolveSecrets(config, { readSecret: createSecretReader() });
  const examiner = createHostExaminer({
    hosts: config.hosts,
    probe: createProber(config, secrets),
    now: () => Date.now(),
    monotonic: () => performance.now(),
    randomUuid: () => crypto.randomUUID(),
    deadlineAt: Date.now() + TIME_LIMIT_MS,
  });
  const reports = await Promise.all(hosts.map(({ name }) => examiner.examineHost(name)));
  for (const report of reports) print(report, Math.max(...hosts.map(({ name }) => name.length)));
  if (!reports.every(({ ok }) => ok)) process.exitCode = EXIT.fault;
}

function readArguments(): { readonly file: string; readonly only: string | undefined } {
  try {
    const { values } = parseArgs({ options: { config: { type: 'string' }, host: { type: 'string' } } });
    if (values.config === undefined) throw new Error('--config is missing');
    return { file: values.config, only: values.host };
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
  }
}

function readConfig(file: string): Config {
  const loaded = loadConfig(file);
  if (loaded.ok) return loaded.config;
  throw new UsageError(loaded.faults.map((fault) => formatFault(file, fault)).join('\n'));
}

function print({ host, checks }: HostHealth, hostWidth: number): void {
  const nameWidth = Math.max(...HOST_CHECKS.map((name) => name.length));
  for (const { name, ok, detail, ms } of checks) {
    const cells = [host.padEnd(hostWidth), verdict(ok), name.padEnd(nameWidth), `${ms} ms`.padStart(8)];
    console.log(`${cells.join('  ')}  ${detail}`);
  }
}

const verdict = (ok: HostCheck['ok']): string => (ok ? 'ok  ' : 'FAIL');

try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError || error instanceof SecretError)) throw error;
  console.error(error.message);
  process.exitCode = EXIT.usage;
}
