import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../../lib/ssh/backoff.ts';
import { SSH_ERROR_REASONS, type SshErrorReason } from '../../../lib/ssh/ssh-error.ts';

const REASONS = Object.keys(SSH_ERROR_REASONS) as SshErrorReason[];

describe('the pause before another attempt', () => {
  it('SS-07: doubles up to two seconds and lies between half of that and all of it', () => {
    const pauses = (random: number) =>
      Array.from({ length: 7 }, (_, index) => backoffMs('closed-early', index + 1, () => random));

    expect(pauses(0)).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
    expect(pauses(0.5)).toEqual([75, 150, 300, 600, 1_200, 1_500, 1_500]);
  });

  it('SS-07: never runs out while a server turns us away', () => {
    expect(backoffMs('closed-early', 1_000, () => 0)).toBe(1_000);
  });

  it.each(REASONS.filter((reason) => !SSH_ERROR_REASONS[reason].retryable))(
    'is not made after %s',
    (reason) => {
      expect(backoffMs(reason, 1, () => 0)).toBeNull();
    },
  );

  it.each(['unreachable', 'socket-unreachable', 'connection-lost'] as const)(
    'is made twice after %s',
    (reason) => {
      expect(backoffMs(reason, 2, () => 0)).toBe(100);
      expect(backoffMs(reason, 3, () => 0)).toBeNull();
    },
  );
});
