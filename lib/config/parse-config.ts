/**
 * From the text of a configuration file to a Config or to every fault it has, each with its path and its line.
 * The same reading serves the CDK app, the local twin and a function's cold start (JSON is YAML).
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { ConfigError, type ConfigFault, formatPath, type PlacedFault } from './fault.ts';
import { explainIssue, placeIssue } from './field.ts';
import { readKnownHosts } from './known-hosts.ts';
import { checkRules } from './rules.ts';
import { type Config, configSchema, type SecretSource } from './schema.ts';
import { type ReadableYaml, readYaml } from './yaml-document.ts';

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly faults: readonly ConfigFault[] };

export interface ParseOptions {
  /** The file that the text is from: paths in it are relative to its folder. */
  readonly file: string;
  /** `synth` refuses what is for local use only and wants the `aws` section; the default is `run`. */
  readonly use?: 'synth' | 'run';
  /** Reads a file that the configuration names (known_hosts); node:fs unless injected. */
  readonly readText?: (path: string) => string;
}

export function parseConfig(text: string, options: ParseOptions): ConfigResult {
  const document = readYaml(text);
  if (!document.ok) return { ok: false, faults: byLine(document.faults) };

  const { value } = document;
  const base = dirname(resolve(options.file));
  const knownHosts = readKnownHosts(value, base, options.readText ?? readUtf8);
  const parsed = configSchema.safeParse(value, { error: explainIssue });
  const found = [
    ...(parsed.success ? [] : parsed.error.issues.flatMap(placeIssue)),
    ...checkRules(value, options.use ?? 'run'),
    ...knownHosts.faults,
  ];
  if (!parsed.success || found.length > 0 || document.faults.length > 0) {
    return {
      ok: false,
      faults: byLine([...document.faults, ...found.map((fault) => locate(document, fault))]),
    };
  }

  const { ssh, ...rest } = parsed.data;
  const config: Config = {
    ...rest,
    ssh: {
      user: ssh.user,
      privateKey: absolute(ssh.privateKey, base),
      ...(ssh.passphrase === undefined ? {} : { passphrase: absolute(ssh.passphrase, base) }),
      knownHosts: { text: knownHosts.text },
    },
  };
  return { ok: true, config };
}

/** Never throws: a file that cannot be read is a fault of its own. */
export function loadConfig(file: string, options: Omit<ParseOptions, 'file'> = {}): ConfigResult {
  let text: string;
  try {
    text = (options.readText ?? readUtf8)(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { ok: false, faults: [{ path: '', line: 1, detail: `cannot be read: ${reason}` }] };
  }
  return parseConfig(text, { ...options, file });
}

/** @throws ConfigError with every fault. */
export function requireConfig(file: string, options: Omit<ParseOptions, 'file'> = {}): Config {
  const result = loadConfig(file, options);
  if (!result.ok) throw new ConfigError(file, result.faults);
  return result.config;
}

function locate(document: ReadableYaml, { path, part, textLine, detail }: PlacedFault): ConfigFault {
  const line = document.lineOf(path, part);
  if (textLine === undefined) return { path: formatPath(path), line, detail };
  const inFile = document.lineInText(path, textLine);
  return inFile === null
    ? { path: formatPath(path), line, detail: `line ${textLine}: ${detail}` }
    : { path: formatPath(path), line: inFile, detail };
}

function byLine(faults: readonly ConfigFault[]): ConfigFault[] {
  return faults.toSorted((a, b) => a.line - b.line);
}

function absolute(source: SecretSource, base: string): SecretSource {
  return 'file' in source ? { file: resolve(base, source.file) } : source;
}

function readUtf8(path: string): string {
  return readFileSync(path, 'utf8');
}
