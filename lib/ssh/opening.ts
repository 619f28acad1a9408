/**
 * The limits of one openTunnel call: its deadline, the caller's signal and the step it is in. Whatever runs out first
 * becomes the one error, made here, so that every step only has to pass the signal's reason on.
 */
import { SshError } from './ssh-error.ts';

export interface OpeningLimits {
  /** Milliseconds for everything, retries included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export class Opening {
  /** What is being waited for, as the end of "timed out …". */
  step = 'before connecting';
  /** Aborted with an SshError: `timeout` or `aborted`. */
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #limits: OpeningLimits;
  readonly #endsAt: number;
  readonly #timer: NodeJS.Timeout;

  /** @param purpose what is opened, as in "to kvm@host:22" */
  constructor(purpose: string, limits: OpeningLimits) {
    this.signal = this.#controller.signal;
    this.#limits = limits;
    this.#endsAt = limits.now() + limits.timeoutMs;
    this.#timer = setTimeout(() => {
      const message = `no tunnel ${purpose} within ${limits.timeoutMs} ms: timed out ${this.step}`;
      this.#controller.abort(new SshError('timeout', message));
    }, limits.timeoutMs);
    limits.signal?.addEventListener('abort', this.#onCallerAbort);
    if (limits.signal?.aborted) this.#onCallerAbort();
  }

  remainingMs(): number {
    return this.#endsAt - this.#limits.now();
  }

  /** To be called however the opening ended: the caller's signal and the timer must not outlive it. */
  end(): void {
    clearTimeout(this.#timer);
    this.#limits.signal?.removeEventListener('abort', this.#onCallerAbort);
  }

  readonly #onCallerAbort = (): void => {
    const cause = this.#limits.signal?.reason;
    this.#controller.abort(new SshError('aborted', `aborted ${this.step}`, { cause }));
  };
}
