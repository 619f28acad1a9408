/** The real `cdk synth`, as a user runs it, with every way to a network cut off. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FUNCTION_NAMES } from '../../infra/routes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const BIN = join(ROOT, 'node_modules/.bin');
/** Nothing listens there: a look-up or a download fails at once instead of going out. */
const NOWHERE = 'http://127.0.0.1:9';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvmfn-synth-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Run {
  readonly code: number | null;
  readonly output: string;
}

function synth(config: string, outdir: string): Promise<Run> {
  const child = spawn(join(BIN, 'cdk'), ['synth', '--quiet', '-c', `config=${config}`, '--output', outdir], {
    cwd: ROOT,
    env: {
      PATH: `${BIN}${delimiter}${process.env['PATH'] ?? ''}`,
      HOME: folder,
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: NOWHERE,
      HTTPS_PROXY: NOWHERE,
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Promise((resolveRun, reject) => {
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => resolveRun({ code, output }));
  });
}

describe('cdk synth', () => {
  it('synthesises the example offline, each bundle with the configuration beside it and no secret in it', async () => {
    const outdir = join(folder, 'good');

    const { code, output } = await synth('config.example.yaml', outdir);

    expect(output).not.toMatch(/error|warning/i);
    expect(code).toBe(0);
    expect(readdirSync(outdir)).toContain('KvmFunctions.template.json');
    const assets = readdirSync(outdir).filter((name) => name.startsWith('asset.'));
    expect(assets).toHaveLength(FUNCTION_NAMES.length);
    for (const asset of assets) {
      expect(readdirSync(join(outdir, asset)).sort()).toEqual(['config.json', 'index.js', 'package.json']);
      const shipped = JSON.parse(readFileSync(join(outdir, asset, 'config.json'), 'utf8'));
      expect(shipped).toMatchObject({
        fleet: 'demo',
        ssh: { privateKey: { secret: 'kvm-functions/ssh-key' } },
      });
      expect(shipped).not.toHaveProperty('aws');
    }
  }, 300_000);

  it('answers a broken configuration with every fault, its path and its line, and no stack trace', async () => {
    const file = join(folder, 'broken.yaml');
    const example = readFileSync(join(ROOT, 'config.example.yaml'), 'utf8');
    const broken = example
      .replace('fleet: demo', 'fleet: Demo')
      .replace('{ secret: kvm-functions/ssh-key }', '{ file: ./key }')
      .replace('name: kvm-b', 'name: kvm-a')
      .replace('vcpus: 2', 'vcpus: two')
      .replace('egress: nat', 'egress: endpoints\n  region: eu');
    writeFileSync(file, broken);
    const lineOf = (piece: string) => broken.slice(0, broken.indexOf(piece)).split('\n').length;

    const { code, output } = await synth(file, join(folder, 'broken'));

    expect(code).not.toBe(0);
    const faults = output.split('\n').filter((line) => line.startsWith(file));
    expect(faults.map((line) => line.split(': ').slice(0, 2).join(': '))).toEqual([
      `${file}:${lineOf('fleet: Demo')}: fleet`,
      `${file}:${lineOf('./key')}: ssh.privateKey.file`,
      `${file}:${lineOf('10.20.0.12, bridge')}: hosts[1].name`,
      `${file}:${lineOf('vcpus: two')}: machineTypes.medium.vcpus`,
      `${file}:${lineOf('url: https')}: images.debian-12.url`,
      `${file}:${lineOf('region: eu')}: aws.region`,
    ]);
    expect(output).not.toMatch(/^\s+at /m);
  }, 300_000);

  it('says which file it could not read', async () => {
    const { code, output } = await synth('no-such-file.yaml', join(folder, 'missing'));

    expect(code).not.toBe(0);
    expect(output).toMatch(/^no-such-file\.yaml:1: cannot be read: ENOENT/m);
    expect(output).not.toMatch(/^\s+at /m);
  }, 300_000);
});
