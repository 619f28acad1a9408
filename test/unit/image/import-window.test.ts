import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ImageSource } from '../../../lib/image/image-source.ts';
import { openWindow } from '../../../lib/image/import-window.ts';

const MIB = 1024 ** 2;
const source: ImageSource = { name: 'tiny', url: 'http://images.example/disk', format: 'raw', checksum: '' };

describe('the window of an attempt', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('ends before the deadline, so that there is time to take the attempt back', () => {
    vi.useFakeTimers({ now: 0 });
    const window = openWindow(source, 60_000, Date.now);

    vi.advanceTimersByTime(49_999);
    expect(window.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);

    expect(window.signal.reason).toMatchObject({ name: 'ImageError', reason: 'too-slow', retryable: true });
    window.close();
  });

  it('is not opened when there is no time', () => {
    expect(() => openWindow(source, 10_000, () => 0)).toThrow(
      expect.objectContaining({ reason: 'too-slow' }),
    );
  });

  it("ends with the caller's reason when the caller ends first", () => {
    const caller = new AbortController();
    const window = openWindow(source, 60_000, () => 0, caller.signal);

    caller.abort('enough');

    expect(window.signal.reason).toBe('enough');
    window.close();
  });

  it('ends at a byte count too, when the timer is late', () => {
    let now = 0;
    const window = openWindow(source, 60_000, () => now);
    now = 50_000;

    expect(() => window.progress(MIB, 2 * MIB)).toThrow(/^image tiny: 1 of 2 MiB arrived in the 50 s /);
    window.close();
  });

  it('says for good that an image never fits, once its rate shows it', () => {
    let now = 0;
    const window = openWindow(source, 850_000, () => now);
    now = 840_000;

    expect(() => window.progress(90 * MIB, 100 * MIB)).toThrow(
      expect.objectContaining({
        retryable: false,
        message: expect.stringContaining('it takes 934 s and never fits into an attempt of 900 s'),
      }),
    );
    window.close();
  });

  it('leaves hope when the rate would do in a longer attempt, or says nothing yet', () => {
    for (const [elapsedMs, doneMiB] of [
      [840_000, 99],
      [1_000, 0],
      [4_000, 0.001],
    ] as const) {
      let now = 0;
      const window = openWindow(source, 10_000 + elapsedMs, () => now);
      now = elapsedMs;

      expect(() => window.progress(doneMiB * MIB, 100 * MIB)).toThrow(
        expect.objectContaining({ retryable: true }),
      );
      window.close();
    }
  });
});
