/** The local API as a user starts it: `npm start -- --config FILE`, in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

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

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGTERM');
    await ended;
  }
}
