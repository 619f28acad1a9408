/** The local API as a user starts it: `npm start -- --config FILE`, in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Instance } from '../../lib/provider/instance.ts';

const BOOT_LIMIT_MS = 420_000;

export class LocalApi implements AsyncDisposable {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  static async start(configFile: string): Promise<LocalApi> {
    const child = spawn(process.execPath, ['infra/local/main.ts', '--port', '0', '--config', configFile], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    for await (const line of createInterface({ input: child.stdout })) {
      const url = /^kvm-functions listening on (\S+)$/.exec(line)?.[1];
      if (url !== undefined) return new LocalApi(url, child);
    }
    throw new Error('the local API ended before it listened');
  }

  async request(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  }

  /** A direct invocation, as the AWS SDK makes it. */
  async invoke(name: string, event: unknown): Promise<unknown> {
    return (await this.request('POST', `/2015-03-31/functions/${name}/invocations`, event)).body;
  }

  /** Asks again and again. @throws Error when the VM fails, or minutes later */
  async waitFor(id: string, what: string, is: (instance: Instance) => boolean): Promise<Instance> {
    const until = Date.now() + BOOT_LIMIT_MS;
    for (;;) {
      const instance = (await this.request('GET', `/instances/${id}`)).body as Instance;
      if (is(instance)) return instance;
      if (instance.state === 'Failed' || Date.now() > until)
        throw new Error(`${id} did not become ${what}: ${JSON.stringify(instance)}`);
      await sleep(2_000);
    }
  }

  waitForState(id: string, state: Instance['state']): Promise<Instance> {
    return this.waitFor(id, state, (instance) => instance.state === state);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGTERM');
    await ended;
  }
}
