/**
 * How often and after what pause an opening is tried again. Parallel functions that sshd turned away together must not
 * come back together, hence the jitter.
 */
import type { SshErrorReason } from './ssh-error.ts';

/**
 * Attempts in all, by reason; a reason that is not named is final. sshd's MaxStartups drops handshakes by chance, so
 * that trying on until the deadline is right. A refused connection or a missing socket may be a daemon's restart,
 * which takes well under a second: longer is for the caller's own schedule (a queue), as the host may just be down.
 */
const MAX_ATTEMPTS: Partial<Record<SshErrorReason, number>> = {
  'closed-early': Number.POSITIVE_INFINITY,
  'connection-lost': 3,
  unreachable: 3,
  'socket-unreachable': 3,
};

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 2_000;

/**
 * @param attempt the number of the attempt that failed, from 1
 * @param random uniform in [0, 1)
 * @returns milliseconds to wait, between half of the exponential step and the whole of it; null: give up
 */
export function backoffMs(reason: SshErrorReason, attempt: number, random: () => number): number | null {
  if (attempt >= (MAX_ATTEMPTS[reason] ?? 1)) return null;
  const step = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
  return step * (0.5 + random() / 2);
}
