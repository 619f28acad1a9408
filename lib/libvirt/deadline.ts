/** How long an answer is waited for: a deadline in milliseconds and a signal, whichever comes first. */
import { LibvirtTimeoutError } from './errors.ts';
import type { ProcedureName } from './protocol.ts';

/** A longer delay makes Node's timer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface Wait {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** @throws the signal's reason, or LibvirtTimeoutError when no time is left: then nothing is sent at all. */
export function throwIfExpired(procedure: ProcedureName, wait: Wait): void {
  wait.signal?.throwIfAborted();
  if (!(wait.timeoutMs > 0)) {
    throw new LibvirtTimeoutError(procedure, Math.max(0, wait.timeoutMs));
  }
}

/** Calls `onExpire` once with the reason unless the returned function is called before. */
export function watchDeadline(
  procedure: ProcedureName,
  { timeoutMs, signal }: Wait,
  onExpire: (reason: unknown) => void,
): () => void {
  const expire = (reason: unknown): void => {
    callOff();
    onExpire(reason);
  };
  const onAbort = (): void => expire(signal?.reason);
  const timer = setTimeout(
    () => expire(new LibvirtTimeoutError(procedure, timeoutMs)),
    Math.min(timeoutMs, LONGEST_TIMER_MS),
  );
  signal?.addEventListener('abort', onAbort, { once: true });
  const callOff = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  };
  return callOff;
}
