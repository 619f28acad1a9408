/**
 * The time one import attempt has. An attempt starts from the first byte, so an image that does not fit into one is
 * never imported: the error says how long it would take, and whether any attempt could be long enough.
 */
import { ImageError } from './image-error.ts';
import type { ImageSource } from './image-source.ts';

/**
 * Kept back at the end for the verdict or for taking back what was begun. That is six calls, and one that makes a
 * volume takes as long as the host's disk takes to flush it: seconds, on one that is busy.
 */
const FINISH_MS = 10_000;
/** No AWS Lambda invocation lasts longer. */
const LONGEST_ATTEMPT_MS = 900_000;
/** Before that, a rate is noise. */
const RATE_AFTER_MS = 5_000;
/** A longer delay makes Node's timer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const MIB = 1024 ** 2;

export interface ImportWindow {
  /** Aborted when the time is up, with an ImageError, or when the caller's own signal is, with its reason. */
  readonly signal: AbortSignal;
  /** To be called with every byte count, so that also a timer that is late ends nothing late. @throws ImageError */
  progress(doneBytes: number, totalBytes: number): void;
  /** For what takes a failed attempt back, all of it: aborted when the time kept back for that, from now on, is over. */
  takingBack(): AbortSignal;
  /** Stops the clock. */
  close(): void;
}

/** @throws ImageError `too-slow` when there is no time at all */
export function openWindow(
  source: ImageSource,
  deadlineAt: number,
  now: () => number,
  callersSignal?: AbortSignal,
): ImportWindow {
  const startedAt = now();
  const endsAt = deadlineAt - FINISH_MS;
  let done: { readonly bytes: number; readonly of: number } | undefined;

  const tooSlow = (): ImageError => {
    const elapsedMs = now() - startedAt;
    const neededMs = done === undefined || done.bytes === 0 ? null : (elapsedMs * done.of) / done.bytes;
    const hopeless = neededMs !== null && elapsedMs >= RATE_AFTER_MS && neededMs > LONGEST_ATTEMPT_MS;
    const soFar = done === undefined ? 'nothing' : `${mebibytes(done.bytes)} of ${mebibytes(done.of)} MiB`;
    const rest = hopeless
      ? `; at that rate it takes ${seconds(neededMs)} s and never fits into an attempt of ${seconds(LONGEST_ATTEMPT_MS)} s`
      : '';
    return new ImageError(
      'too-slow',
      `image ${source.name}: ${soFar} arrived in the ${seconds(elapsedMs)} s that this attempt had${rest}`,
      { retryable: !hopeless },
    );
  };

  const remainingMs = endsAt - startedAt;
  if (remainingMs <= 0) throw tooSlow();
  const timeUp = new AbortController();
  const timer = setTimeout(() => timeUp.abort(tooSlow()), Math.min(remainingMs, LONGEST_TIMER_MS));
  return {
    signal: callersSignal === undefined ? timeUp.signal : AbortSignal.any([callersSignal, timeUp.signal]),
    progress(doneBytes, totalBytes) {
      done = { bytes: doneBytes, of: totalBytes };
      if (now() >= endsAt) throw tooSlow();
    },
    takingBack: () => AbortSignal.timeout(FINISH_MS),
    close: () => clearTimeout(timer),
  };
}

function mebibytes(bytes: number): number {
  return Math.floor(bytes / MIB);
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
