/**
 * A provider for the length of one invocation: opened, used, and closed whatever happens. It also ends the wait when
 * the provider itself does not: an answer of ours, late but there, beats the gateway's.
 */
import { ProviderError } from '../provider/provider-error.ts';
import type { Invocation } from './invocation.ts';
import type { FleetProvider, Runtime } from './runtime.ts';

/** After the deadline the provider has this long to end by itself, which tells more than the bare timeout. */
const OVERDUE_MS = 400;
/** Closing says goodbye to each daemon; one that does not answer must not cost the answer. */
const CLOSE_MS = 400;

/** @throws ProviderError `timeout` when the work goes on past the invocation's deadline. */
export async function withProvider<T>(
  runtime: Runtime,
  invocation: Invocation,
  canImport: boolean,
  work: (provider: FleetProvider, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { deadlineAt, log } = invocation;
  const stop = new AbortController();
  const overdue = new ProviderError(
    'timeout',
    'the time of this invocation has run out before the work was done',
  );
  let provider: FleetProvider | undefined;

  const attempt = async () => {
    provider = await runtime.openProvider({ deadlineAt, signal: stop.signal, canImport, log });
    stop.signal.throwIfAborted();
    return await work(provider, stop.signal);
  };

  const leftMs = Math.max(0, deadlineAt - runtime.now());
  const timers: NodeJS.Timeout[] = [];
  const lateness = new Promise<never>((_, reject) => {
    timers.push(setTimeout(() => stop.abort(overdue), leftMs));
    timers.push(setTimeout(() => reject(overdue), leftMs + OVERDUE_MS));
  });
  try {
    // The loser of a race is still observed by it, so that neither can reject unhandled.
    return await Promise.race([attempt(), lateness]);
  } finally {
    for (const timer of timers) clearTimeout(timer);
    if (provider !== undefined) await closeWithin(provider, log);
  }
}

async function closeWithin(provider: FleetProvider, log: Invocation['log']): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, CLOSE_MS);
  });
  try {
    await Promise.race([provider.close(), patience]);
  } catch (error) {
    // What was to be done is done; a session that could not be ended is the daemon's to time out.
    log.warn('closing the sessions failed', { error: asError(error) });
  } finally {
    clearTimeout(timer);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
