/** Every bundle, built by the one build script, started by Node 24 in a process of its own and invoked there. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFunction, functionNames } from '../../infra/bundle.ts';
import { FUNCTION_NAMES, ROUTES } from '../../infra/routes.ts';
import { requireConfig } from '../../lib/config/parse-config.ts';
import { shippedConfig } from '../../lib/config/shipped-config.ts';

const run = promisify(execFile);

let folder: string;
const bundles = new Map<string, Bundle>();
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvmfn-bundles-'));
  const shipped = shippedConfig(requireConfig('config.example.yaml', { use: 'synth' }));
  for (const name of await functionNames()) {
    bundles.set(name, await bundleFunction(name, join(folder, name)));
    writeFileSync(join(folder, name, 'config.json'), shipped);
  }
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true }));

interface Invocation {
  readonly result?: unknown;
  readonly error?: { readonly name: string; readonly message: string };
  readonly node: string;
}

/** As the Lambda runtime does it: require the file, call its handler, report the result or the error's name. */
const INVOKE = `
const { handler } = require(process.argv[1]);
const context = { awsRequestId: 'r-1', functionName: 'f', getRemainingTimeInMillis: () => 20000 };
const report = (outcome) => require('node:fs').writeFileSync(3, JSON.stringify({ ...outcome, node: process.version }));
process.on('unhandledRejection', (error) => { throw error; });
handler(JSON.parse(process.argv[2]), context).then(
  (result) => report({ result }),
  (error) => report({ error: { name: error.name, message: error.message } }),
);`;

async function invoke(name: string, event: unknown): Promise<Invocation> {
  const bundle = bundles.get(name);
  if (bundle === undefined) throw new Error(`no bundle ${name}`);
  const answer = join(folder, `${name}.answer.json`);
  // The third descriptor carries the answer, since the standard output is the function's log.
  const command = `exec "$0" -e "$1" "$2" "$3" 3>"$4"`;
  await run(
    '/bin/sh',
    ['-c', command, process.execPath, INVOKE, bundle.file, JSON.stringify(event), answer],
    {
      cwd: join(folder, name),
      env: { LAMBDA_TASK_ROOT: join(folder, name), KVM_FUNCTIONS_ROUTES: JSON.stringify(ROUTES) },
    },
  );
  return JSON.parse(readFileSync(answer, 'utf8'));
}

function http(method: string, path: string, pathParameters: Record<string, string> = {}): object {
  return {
    version: '2.0',
    routeKey: '$default',
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    pathParameters,
    requestContext: { http: { method, path } },
    isBase64Encoded: false,
  };
}

describe('the build', () => {
  it('makes a bundle of every function that the table names, and of no other', () => {
    expect([...bundles.keys()].sort()).toEqual([...FUNCTION_NAMES].sort());
  });

  it('says how large each is and what of it comes from where', () => {
    for (const { name, bytes, packages, file } of bundles.values()) {
      expect(bytes).toBe(readFileSync(file).byteLength);
      expect(packages.map((part) => part.name)).toContain('kvm-functions');
      console.log(`bundle ${name}: ${Math.round(bytes / 1000)} kB`);
    }
  });

  it('keeps each below the million bytes that a cold start reads in time', () => {
    for (const { name, bytes } of bundles.values()) expect(bytes, name).toBeLessThanOrEqual(1_000_000);
  });

  it('carries the queue for those alone that leave work behind', () => {
    const carriers = [...bundles.values()].filter(({ packages }) =>
      packages.some(({ name }) => name === '@aws-sdk/client-sqs'),
    );

    expect(carriers.map(({ name }) => name).sort()).toEqual(['create', 'delete', 'gc', 'worker']);
  });

  it('opens a key with a passphrase although the library for it was left out', async () => {
    const functions = join(folder, 'with-passphrase');
    mkdirSync(functions);
    const key = join(functions, 'key');
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'open sesame', '-f', key]);
    writeFileSync(
      join(functions, 'passphrase.ts'),
      `import { readFileSync } from 'node:fs';
      import { parsePrivateKey } from ${JSON.stringify(join(import.meta.dirname, '../../lib/ssh/private-key.ts'))};
      export const handler = async ({ key, phrase }: { key: string; phrase: string }) =>
        parsePrivateKey(readFileSync(key, 'utf8'), phrase).fingerprint;`,
    );

    bundles.set('passphrase', await bundleFunction('passphrase', join(folder, 'passphrase'), { functions }));
    const opened = await invoke('passphrase', { key, phrase: 'open sesame' });
    const refused = await invoke('passphrase', { key, phrase: 'open barley' });
    bundles.delete('passphrase');

    const { stdout } = await run('ssh-keygen', ['-l', '-f', `${key}.pub`]);
    expect(opened.result).toBe(stdout.split(' ')[1]);
    expect(refused.error?.name).toBe('PrivateKeyError');
  });

  it('makes the same bytes of the same sources, so that nothing is deployed again for nothing', async () => {
    const again = await bundleFunction('get', join(folder, 'again'));

    expect(readFileSync(again.file)).toEqual(readFileSync(join(folder, 'get', 'index.js')));
  });

  it('leaves no trace of a previous build', async () => {
    const outdir = join(folder, 'rebuilt');
    mkdirSync(outdir);
    writeFileSync(join(outdir, 'left-over.js'), '');

    await bundleFunction('not-found', outdir);

    expect(() => readFileSync(join(outdir, 'left-over.js'))).toThrow(/ENOENT/);
  });

  it('LM-02: stops at no native addon, built or not, and the bundle goes on without it', async () => {
    const functions = join(folder, 'with-addons');
    mkdirSync(join(functions, 'build'), { recursive: true });
    writeFileSync(join(functions, 'build', 'built.node'), 'not an addon for this machine');
    writeFileSync(
      join(functions, 'probe.ts'),
      `const tried: string[] = [];
      try { require('./build/built.node'); } catch { tried.push('built'); }
      try { require('./build/missing.node'); } catch { tried.push('missing'); }
      try { require('cpu-features')(); } catch { tried.push('cpu-features'); }
      export const handler = async () => tried;`,
    );

    bundles.set('probe', await bundleFunction('probe', join(folder, 'probe'), { functions }));
    const { result } = await invoke('probe', {});
    bundles.delete('probe');

    expect(result).toEqual(['built', 'missing', 'cpu-features']);
  });

  it('LM-02: is JavaScript alone, so that it runs on arm64 and x86_64 alike', () => {
    for (const { file } of bundles.values()) {
      expect(readdirSync(dirname(file)).sort()).toEqual(['config.json', 'index.js', 'package.json']);
      // esbuild would have inlined an addon as a data URL or as base64.
      expect(readFileSync(file, 'utf8')).not.toMatch(/f0VMR[A-Za-z0-9+/]{100}/);
    }
  });
});

describe('each bundle in a fresh process of Node 24', () => {
  it.each([
    ['create', { ...http('POST', '/instances'), body: '{}' }, 400],
    ['list', { ...http('GET', '/instances'), rawQueryString: 'limit=0' }, 400],
    ['get', http('GET', '/instances/nowhere/vm-1', { host: 'nowhere', name: 'vm-1' }), 404],
    ['delete', http('DELETE', '/instances/nowhere/vm-1', { host: 'nowhere', name: 'vm-1' }), 404],
    ['not-found', http('GET', '/no/such/route'), 404],
  ])('%s answers a request with problem details', async (name, event, status) => {
    const { result, node } = await invoke(name, event);

    expect(node).toMatch(/^v24\./);
    expect(result).toMatchObject({
      statusCode: status,
      headers: { 'content-type': 'application/problem+json' },
      body: expect.stringContaining('"requestId":"r-1"'),
    });
  });

  it.each([
    ['create', {}, 'InvalidRequest'],
    ['get', { id: 'nowhere/vm-1' }, 'NotFound'],
    ['delete', { id: 'nowhere/vm-1' }, 'NotFound'],
    ['list', { limit: 0 }, 'InvalidRequest'],
    ['gc', { mode: 'mark' }, 'InvalidRequest'],
    ['doctor', { host: 'nowhere' }, 'NotFound'],
  ])('%s throws an error named by its kind, which minifying did not change', async (name, event, kind) => {
    const { error } = await invoke(name, event);

    expect(error?.name).toBe(kind);
  });

  it('worker answers an empty batch with nothing failed', async () => {
    const { result } = await invoke('worker', { Records: [] });

    expect(result).toEqual({ batchItemFailures: [] });
  });
});
