/** `npm start [-- --port N] [--config FILE]`: the API of README.md on this machine, and one line when it is ready. */
import { parseArgs } from 'node:util';
import { formatFault } from '../../lib/config/fault.ts';
import { loadConfig } from '../../lib/config/parse-config.ts';
import { resolveSecrets } from '../../lib/config/secrets.ts';
import { createSecretReader } from '../../lib/lambda/secret-reader.ts';
import { parsePrivateKey } from '../../lib/ssh/private-key.ts';
import { type Deployment, startEmbeddedDeployment } from './embedded-deployment.ts';
import { startLocalTwin } from './local-twin.ts';

const USAGE = 'usage: npm start -- [--port N] [--config FILE]';

/** What the person at the terminal can put right: said in words, without a stack. */
class StartError extends Error {}

async function main(): Promise<void> {
  const { port, configFile } = readArguments();
  const deployment = configFile === null ? await startEmbeddedDeployment() : await openDeployment(configFile);
  const twin = await startLocalTwin({
    ...deployment,
    port,
    warn: (message) => console.error(`kvm-functions: ${message}`),
  }).catch(async (error: unknown) => {
    await deployment.close();
    throw explainListening(error, port);
  });
  console.log(`kvm-functions listening on ${twin.url}`);

  let stopping = false;
  const stop = async () => {
    // A second signal is somebody who does not want to wait.
    if (stopping) process.exit(1);
    stopping = true;
    await twin.close();
    await deployment.close();
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop());
}

function readArguments(): { readonly port: number; readonly configFile: string | null } {
  let values: { port?: string; config?: string };
  try {
    ({ values } = parseArgs({ options: { port: { type: 'string' }, config: { type: 'string' } } }));
  } catch (error) {
    throw new StartError(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
  }
  const port = values.port ?? '3000';
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new StartError(`--port must be a number from 0 to 65535\n${USAGE}`);
  }
  return { port: Number(port), configFile: values.config ?? null };
}

/** A key in a file is read and parsed now; one in Secrets Manager is asked for when a host is first talked to. */
async function openDeployment(file: string): Promise<Deployment> {
  const loaded = loadConfig(file);
  if (!loaded.ok) throw new StartError(loaded.faults.map((fault) => formatFault(file, fault)).join('\n'));
  const { config } = loaded;
  if ('file' in config.ssh.privateKey) {
    try {
      const { privateKey, passphrase } = await resolveSecrets(config, { readSecret: createSecretReader() });
      parsePrivateKey(privateKey, passphrase);
    } catch (error) {
      throw new StartError(
        `${file}: ssh.privateKey: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  return { config, readSecret: createSecretReader(), close: async () => undefined };
}

function explainListening(error: unknown, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  if (code === 'EADDRINUSE') return new StartError(`port ${port} is in use; choose another one with --port`);
  if (code === 'EACCES')
    return new StartError(`port ${port} may not be used by this user; choose another one with --port`);
  return error;
}

try {
  await main();
} catch (error) {
  if (!(error instanceof StartError)) throw error;
  console.error(error.message);
  process.exit(1);
}
