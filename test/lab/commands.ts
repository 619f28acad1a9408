/**
 * Runs a command of the system and says everything about it when it fails: a lab that does not come up must
 * explain itself.
 */
import { spawn } from 'node:child_process';

export interface RunOptions {
  readonly input?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** What the command is ended with on abort and timeout; `unshare` ignores SIGTERM. */
  readonly killSignal?: NodeJS.Signals;
}

export class CommandError extends Error {
  readonly exitCode: number | null;
  readonly stderr: string;

  constructor(commandLine: string, exitCode: number | null, ending: string, stderr: string) {
    super(`${commandLine}: ${ending}${stderr === '' ? '' : `\n${stderr}`}`);
    this.name = 'CommandError';
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

const LOCALE_AND_PATH = {
  LC_ALL: 'C.UTF-8',
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
};
const DEFAULT_TIMEOUT_MS = 60_000;
const STDERR_LIMIT = 4_000;

/**
 * Runs a command to its end and returns its standard output. Without `input` it reads end-of-file at once: a command that asks a
 * question fails instead of waiting.
 * @throws CommandError with the end of its standard error: it exited with another status than 0, was killed, or took too long
 */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const commandLine = [command, ...args].join(' ');
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const signals = [AbortSignal.timeout(timeoutMs), ...(options.signal ? [options.signal] : [])];
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env: { ...process.env, ...LOCALE_AND_PATH, ...options.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      signal: AbortSignal.any(signals),
      killSignal: options.killSignal ?? 'SIGTERM',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-STDERR_LIMIT);
    });
    child.stdin.on('error', () => {}); // a command may end without having read its input
    child.stdin.end(options.input ?? '');
    const fail = (exitCode: number | null, ending: string) =>
      reject(new CommandError(commandLine, exitCode, ending, stderr.trim()));
    child.on('error', (error) =>
      fail(null, signals[0]?.aborted ? `took longer than ${timeoutMs} ms` : error.message),
    );
    child.on('close', (exitCode, signal) => {
      if (exitCode === 0) resolve(stdout);
      else fail(exitCode, signal ? `killed by ${signal}` : `exited with ${exitCode}`);
    });
  });
}

/** Repeats `attempt` until it returns true. @throws Error naming `what` when that takes longer than `timeoutMs` */
export async function waitUntil(
  what: string,
  attempt: () => boolean | Promise<boolean>,
  timeoutMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await attempt())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
