/**
 * The CDK app: reads and checks the configuration, makes the bundles, synthesises the stack. It looks nothing up and
 * needs no account, so that it works offline. `-c config=FILE` names the configuration, else config.yaml, else
 * config.example.yaml.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import { ConfigError } from '../../lib/config/fault.ts';
import { requireConfig } from '../../lib/config/parse-config.ts';
import type { Config } from '../../lib/config/schema.ts';
import { bundleForDeployment } from './deployment-bundles.ts';
import { KvmFunctionsStack } from './kvm-functions-stack.ts';

const app = new App();
const config = readConfig(configFile());
if (config !== null) {
  const bundles = await bundleForDeployment(config, join(app.outdir, 'bundles'));
  new KvmFunctionsStack(app, 'KvmFunctions', { config, bundles });
  app.synth();
}

function configFile(): string {
  const named: unknown = app.node.tryGetContext('config');
  if (typeof named === 'string' && named !== '') return named;
  return existsSync('config.yaml') ? 'config.yaml' : 'config.example.yaml';
}

/** The faults are for whoever wrote the file: a stack trace would only bury them. */
function readConfig(file: string): Config | null {
  try {
    return requireConfig(file, { use: 'synth' });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
    return null;
  }
}
