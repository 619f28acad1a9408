/**
 * A contestant that runs as one process for a whole measure, as a service or a warm function does: it reads one order as
 * a line of JSON, carries it out, measures itself while it does, and answers with a line. Starting it and talking to it
 * is no part of the time.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export interface WarmPeer extends AsyncDisposable {
  readonly pid: number;
  /** One order at a time. @throws Error with what the peer says is wrong, or its last words */
  ask<Answer extends Timed>(order: object, signal: AbortSignal): Promise<Answer>;
}

export interface Timed {
  /** What the order took, by the peer's own clock, in milliseconds. */
  readonly ms: number;
}

const STDERR_LIMIT = 2_000;

/** @param settings what the peer is told at its start, as JSON in its last argument */
export async function startWarmPeer(
  command: string,
  args: readonly string[],
  settings: object,
): Promise<WarmPeer> {
  const child = spawn(command, [...args, JSON.stringify(settings)], { stdio: 'pipe' });
  const { stdin, stdout, stderr } = child;
  let lastWords = '';
  stderr.setEncoding('utf8').on('data', (text: string) => {
    lastWords = (lastWords + text).slice(-STDERR_LIMIT);
  });
  stdin.on('error', () => {}); // it has ended; the answer that does not come says so
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  await once(child, 'spawn');
  const { pid } = child;
  if (pid === undefined) throw new Error(`cannot start ${command}`);

  const nextLine = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${command} has ended: ${lastWords.trim()}`);
    return value;
  };
  return {
    pid,
    ask: async <Answer extends Timed>(order: object, signal: AbortSignal): Promise<Answer> => {
      stdin.write(`${JSON.stringify(order)}\n`);
      const answer: unknown = JSON.parse(await unlessAborted(nextLine(), signal));
      if (isRefusal(answer)) throw new Error(answer.error);
      return answer as Answer;
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

function isRefusal(answer: unknown): answer is { readonly error: string } {
  return typeof answer === 'object' && answer !== null && 'error' in answer;
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
