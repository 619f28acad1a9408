/**
 * Makes one function's bundle: the only build there is, shared by the CDK app, the local twin and the benchmarks, so
 * that what is measured and tested is what is deployed. Run by itself it bundles every function into dist/.
 *
 * CommonJS, because an ES module made of ssh2 dies at import (`__dirname is not defined`). The AWS SDK is bundled:
 * the copy in the Lambda runtime changes under us and loads slower, being hundreds of files.
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, type Metafile } from 'esbuild';
import { leaveOutUnreachable } from './bundle-omissions.ts';

const ROOT = join(import.meta.dirname, '..');
const FUNCTIONS = join(ROOT, 'functions');

export interface BundleOptions {
  /** Also writes index.js.map. */
  readonly sourcemap?: boolean;
  /** Where `<name>.ts` is; the project's functions/ unless said otherwise. */
  readonly functions?: string;
}

export interface Bundle {
  readonly name: string;
  /** The CommonJS file that exports `handler`. */
  readonly file: string;
  readonly bytes: number;
  /** Bytes of the output by the npm package they come from (`kvm-functions` for ours), largest first. */
  readonly packages: readonly { readonly name: string; readonly bytes: number }[];
}

/** Writes `outdir`/index.js, and replaces whatever was in that folder. The same sources give the same bytes. */
export async function bundleFunction(
  name: string,
  outdir: string,
  options: BundleOptions = {},
): Promise<Bundle> {
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  const file = join(outdir, 'index.js');
  const result = await build({
    absWorkingDir: ROOT,
    entryPoints: [join(options.functions ?? FUNCTIONS, `${name}.ts`)],
    outfile: file,
    bundle: true,
    minify: true,
    metafile: true,
    sourcemap: options.sourcemap ?? false,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    mainFields: ['module', 'main'],
    // ssh2 asks for both inside a try and goes on in JavaScript; an addon built here would not run on arm64 there.
    external: ['*.node', 'cpu-features'],
    plugins: [leaveOutUnreachable],
    define: { 'import.meta.dirname': '__dirname', 'import.meta.filename': '__filename' },
    legalComments: 'none',
    logLevel: 'warning',
  });
  // This project's own package.json says that .js files below it are ES modules.
  await writeFile(join(outdir, 'package.json'), '{ "type": "commonjs" }\n');
  return { name, file, ...measure(result.metafile) };
}

/** Every file in functions/ is one function. */
export async function functionNames(folder: string = FUNCTIONS): Promise<string[]> {
  const files = await readdir(folder);
  return files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => basename(file, '.ts'))
    .sort();
}

function measure(metafile: Metafile): Pick<Bundle, 'bytes' | 'packages'> {
  const output = Object.entries(metafile.outputs).find(([path]) => path.endsWith('index.js'))?.[1];
  if (output === undefined) throw new Error('esbuild reported no index.js');
  const sizes = new Map<string, number>();
  for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
    const name = /(?:^|.*\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? 'kvm-functions';
    sizes.set(name, (sizes.get(name) ?? 0) + bytesInOutput);
  }
  const packages = [...sizes].map(([name, bytes]) => ({ name, bytes })).sort((a, b) => b.bytes - a.bytes);
  return { bytes: output.bytes, packages };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      outdir: { type: 'string', default: join(ROOT, 'dist') },
      sourcemap: { type: 'boolean', default: false },
    },
  });
  for (const name of await functionNames()) {
    const bundle = await bundleFunction(name, join(values.outdir, name), { sourcemap: values.sourcemap });
    const largest = bundle.packages.slice(0, 5).map((part) => `${part.name} ${kilobytes(part.bytes)}`);
    console.log(`${name.padEnd(10)} ${kilobytes(bundle.bytes).padStart(8)}  ${largest.join(', ')}`);
  }
}

function kilobytes(bytes: number): string {
  return `${Math.round(bytes / 1000)} kB`;
}

if (import.meta.main) await main();
