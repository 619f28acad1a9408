/**
 * A guest seen from inside, without any code of ours between: its QEMU guest agent, asked by virsh on the host. That it
 * answers at all is part of what is shown, because the image has no agent: user-data has to install and start it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { virsh } from './lab.ts';
import type { LabHostName } from './topology.ts';

const AGENT_TIMEOUT_SECONDS = 20;
const LIMIT_MS = 420_000;
const READ_BYTES = 1 << 20;

const started = z.object({ pid: z.number() });
const ended = z.object({
  exited: z.boolean(),
  exitcode: z.number().optional(),
  'out-data': z.string().default(''),
  'err-data': z.string().default(''),
});
const result = z.object({ v1: z.object({ errors: z.array(z.string()) }) });
const chunk = z.object({ eof: z.boolean(), 'buf-b64': z.string() });

export interface Finished {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Guest {
  readonly #host: LabHostName;
  readonly #domain: string;

  constructor(host: LabHostName, domain: string) {
    this.#host = host;
    this.#domain = domain;
  }

  /** Runs a program in the guest, as root, to its end. @throws Error when that takes minutes, or the agent does not answer */
  async run(path: string, ...args: readonly string[]): Promise<Finished> {
    const command = { path, arg: args, 'capture-output': true };
    const { pid } = started.parse(await this.#ask('guest-exec', command));
    const until = Date.now() + LIMIT_MS;
    for (;;) {
      const status = ended.parse(await this.#ask('guest-exec-status', { pid }));
      if (status.exited) {
        return {
          exitCode: status.exitcode ?? null,
          stdout: decode(status['out-data']).toString('utf8'),
          stderr: decode(status['err-data']).toString('utf8'),
        };
      }
      if (Date.now() > until) throw new Error(`${this.#domain}: ${[path, ...args].join(' ')} did not end`);
      await sleep(1_000);
    }
  }

  /** @throws CommandError when there is no such file */
  async readFile(path: string): Promise<Buffer> {
    const handle = z.number().parse(await this.#ask('guest-file-open', { path, mode: 'r' }));
    const chunks: Buffer[] = [];
    for (;;) {
      const read = chunk.parse(await this.#ask('guest-file-read', { handle, count: READ_BYTES }));
      chunks.push(decode(read['buf-b64']));
      if (read.eof) break;
    }
    await this.#ask('guest-file-close', { handle });
    return Buffer.concat(chunks);
  }

  async readText(path: string): Promise<string> {
    return (await this.readFile(path)).toString('utf8');
  }

  /** Waits for cloud-init's end, and says what the guest has come to. */
  async inspect() {
    await this.#waitForAgent();
    const { stdout, exitCode } = await this.run('/usr/bin/cloud-init', 'status', '--wait', '--long');
    return {
      cloudInit: { exitCode, status: /^status: (\S+)$/m.exec(stdout)?.[1] ?? stdout },
      errors: result.parse(JSON.parse(await this.readText('/run/cloud-init/result.json'))).v1.errors,
      hostname: (await this.run('/bin/hostname')).stdout.trim(),
      instanceId: (await this.readText('/var/lib/cloud/data/instance-id')).trim(),
      userData: await this.readText('/var/lib/cloud/instance/user-data.txt'),
      /** The default user's name is the distribution's. */
      authorizedKeys: (await this.run('/bin/sh', '-c', 'cat /home/*/.ssh/authorized_keys')).stdout.trim(),
      packages: await this.#installed('qemu-guest-agent', 'ed'),
    };
  }

  async #installed(...names: readonly string[]): Promise<string[]> {
    const { stdout } = await this.run('/usr/bin/dpkg-query', '--show', ...names);
    return Array.from(stdout.matchAll(/^(\S+)\t/gm), ([, name = '']) => name).toSorted();
  }

  async #waitForAgent(): Promise<void> {
    const until = Date.now() + LIMIT_MS;
    for (;;) {
      try {
        await this.#ask('guest-ping', {});
        return;
      } catch (error) {
        if (Date.now() > until) throw error;
        await sleep(2_000);
      }
    }
  }

  async #ask(execute: string, args: object): Promise<unknown> {
    const request = JSON.stringify({ execute, arguments: args });
    const timeout = ['--timeout', String(AGENT_TIMEOUT_SECONDS)];
    const answer = await virsh(this.#host, 'qemu-agent-command', ...timeout, this.#domain, request);
    return z.object({ return: z.unknown() }).parse(JSON.parse(answer)).return;
  }
}

function decode(base64: string): Buffer {
  return Buffer.from(base64, 'base64');
}
