/** The stack as a template, from the sample configuration with pieces replaced. Its bundles are stand-ins. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as z from 'zod';
import { KvmFunctionsStack } from '../../infra/aws/kvm-functions-stack.ts';
import { parseConfig } from '../../lib/config/parse-config.ts';
import { SAMPLE } from '../unit/config/sample-config.ts';

const cdkJson = z.object({ context: z.record(z.string(), z.unknown()) });

const resource = z.object({ Properties: z.record(z.string(), z.unknown()).default({}) });
export type Resource = z.infer<typeof resource>;

export function synthesise(
  replacements: readonly (readonly [piece: string, replacement: string])[] = [],
): Template {
  let text = SAMPLE;
  for (const [piece, replacement] of replacements) {
    if (!text.includes(piece)) throw new Error(`the sample has no ${piece}`);
    text = text.replace(piece, replacement);
  }
  const result = parseConfig(text, { file: 'config.yaml', use: 'synth' });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));

  const folder = mkdtempSync(join(tmpdir(), 'kvmfn-stack-'));
  try {
    const bundle = join(folder, 'bundle');
    mkdirSync(bundle);
    writeFileSync(join(bundle, 'index.js'), 'exports.handler = async () => ({});');
    const bundles = {
      create: bundle,
      get: bundle,
      list: bundle,
      delete: bundle,
      worker: bundle,
      gc: bundle,
      doctor: bundle,
      'not-found': bundle,
    };
    // With cdk.json's feature flags: they decide how policies and permissions are written.
    const { context } = cdkJson.parse(JSON.parse(readFileSync('cdk.json', 'utf8')));
    const app = new App({ outdir: join(folder, 'cdk.out'), context });
    return Template.fromStack(new KvmFunctionsStack(app, 'Test', { config: result.config, bundles }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The resources of one type whose logical id begins with a prefix (of the construct path). */
export function resourcesOf(template: Template, type: string, prefix = ''): Resource[] {
  return Object.entries(template.findResources(type))
    .filter(([id]) => id.startsWith(prefix))
    .map(([, found]) => resource.parse(found));
}

/** The only one; more or none is a failure. */
export function theResource(template: Template, type: string, prefix = ''): Resource {
  const [resource, ...others] = resourcesOf(template, type, prefix);
  if (resource === undefined || others.length > 0) {
    throw new Error(
      `${others.length + (resource === undefined ? 0 : 1)} resources ${prefix} of type ${type}`,
    );
  }
  return resource;
}

const policyDocument = z.object({
  Statement: z.array(
    z.object({
      Effect: z.enum(['Allow', 'Deny']),
      Action: z.union([z.string(), z.array(z.string())]),
      Resource: z.unknown(),
    }),
  ),
});
export type Statement = z.infer<typeof policyDocument>['Statement'][number];

/** The statements of every policy of one function's role. */
export function statementsOf(template: Template, functionPrefix: string): Statement[] {
  return resourcesOf(template, 'AWS::IAM::Policy', `${functionPrefix}Role`).flatMap(policyStatements);
}

export function policyStatements(policy: Resource): Statement[] {
  return policyDocument.parse(policy.Properties['PolicyDocument']).Statement;
}

export function actionsOf(statements: readonly Statement[]): string[] {
  return statements.flatMap(({ Action }) => Action).sort();
}
