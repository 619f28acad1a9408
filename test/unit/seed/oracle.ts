/**
 * The guest's own code as the judge of what this library writes: one long-lived Python process with Debian's
 * cloud-init and PyYAML behind it. Tests that need it are skipped with one line where it is not installed.
 */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PYTHON = '/usr/bin/python3';
const PROGRAM = fileURLToPath(new URL('oracle.py', import.meta.url));

/** A Python value in JSON: strings, null and lists as such, all else as `{ <type>: … }` (see oracle.py). */
export type Tagged = null | string | readonly Tagged[] | { readonly [type: string]: unknown };

export interface SeedReading {
  readonly config: Tagged;
  readonly effective: Tagged;
  readonly parts: readonly { readonly type: string; readonly payload: string }[];
  readonly warnings: readonly string[];
}

interface Refusal {
  readonly error: string;
}

export const oracleIsInstalled = spawnSync(PYTHON, ['-c', 'import cloudinit.user_data, yaml']).status === 0;

if (!oracleIsInstalled) {
  console.warn('skipped: no oracle tests, because python3 with cloud-init and python3-yaml is not installed');
}

const base64 = (data: Uint8Array | string): string => Buffer.from(data).toString('base64');

export class Oracle {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #waiting: ((line: string) => void)[] = [];
  #noise = '';

  constructor() {
    this.#process = spawn(PYTHON, [PROGRAM]);
    this.#process.stderr.on('data', (chunk: Buffer) => {
      this.#noise += chunk.toString();
    });
    createInterface({ input: this.#process.stdout }).on('line', (line) => this.#waiting.shift()?.(line));
    this.#process.on('exit', () => {
      for (const answer of this.#waiting.splice(0)) {
        answer(JSON.stringify({ error: `the oracle ended: ${this.#noise.slice(-2000)}` }));
      }
    });
  }

  close(): void {
    this.#process.stdin.end();
  }

  /** PyYAML's reading of a document, or its refusal. */
  yaml(data: Uint8Array | string): Promise<{ value: Tagged } | Refusal> {
    return this.#ask({ op: 'yaml', data: base64(data) });
  }

  /** What cloud-init makes of user-data and vendor-data together. @throws when it refuses */
  async seed(userData: Uint8Array | string, vendorData: Uint8Array | string = ''): Promise<SeedReading> {
    return accepted(
      await this.#ask<SeedReading | Refusal>({
        op: 'seed',
        userData: base64(userData),
        vendorData: base64(vendorData),
      }),
    );
  }

  /** The script that cloud-init makes of the user-data's runcmd. */
  async runcmdScript(userData: Uint8Array): Promise<string> {
    const answer = accepted(
      await this.#ask<{ script: string } | Refusal>({ op: 'runcmd', userData: base64(userData) }),
    );
    return answer.script;
  }

  /** The content type cloud-init sniffs, null when it knows none. */
  async classify(data: Uint8Array | string): Promise<string | null> {
    const answer = accepted(
      await this.#ask<{ type: string | null } | Refusal>({ op: 'classify', data: base64(data) }),
    );
    return answer.type;
  }

  async publicKeys(metaData: Uint8Array | string): Promise<{ metaData: Tagged; keys: readonly unknown[] }> {
    return accepted(await this.#ask({ op: 'public_keys', data: base64(metaData) }));
  }

  async network(config: Uint8Array | string): Promise<{ value: Tagged; interfaces: readonly string[] }> {
    return accepted(await this.#ask({ op: 'network', data: base64(config) }));
  }

  #ask<Answer>(request: object): Promise<Answer> {
    return new Promise((resolve) => {
      this.#waiting.push((line) => resolve(JSON.parse(line) as Answer));
      this.#process.stdin.write(`${JSON.stringify(request)}\n`);
    });
  }
}

function accepted<Answer extends object>(answer: Answer | Refusal): Answer {
  if ('error' in answer) {
    throw new Error(`refused by the oracle: ${answer.error}`);
  }
  return answer;
}
