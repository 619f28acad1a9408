import { describe, expect, it } from 'vitest';
import { scheduleMs, startSchedule } from '../../../infra/local/schedule.ts';

describe('scheduleMs', () => {
  it.each([
    ['rate(1 minute)', 60_000],
    ['rate(5 minutes)', 300_000],
    ['rate(2 hours)', 7_200_000],
    ['rate(1 day)', 86_400_000],
    ['cron(0 3 * * ? *)', 300_000],
    [undefined, 300_000],
  ])('reads %s as %i ms', (expression, expected) => {
    expect(scheduleMs(expression)).toBe(expected);
  });
});

describe('startSchedule', () => {
  it('runs again and again, never twice at once, and lets the last run end', async () => {
    let running = 0;
    let most = 0;
    let runs = 0;
    const thrice = Promise.withResolvers<void>();
    const schedule = startSchedule(1, async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running -= 1;
      runs += 1;
      if (runs === 3) thrice.resolve();
    });

    await thrice.promise;
    await schedule.stop();
    const atStop = runs;
    await new Promise((resolve) => setTimeout(resolve, 20));

    expect({ running, most }).toEqual({ running: 0, most: 1 });
    expect(runs).toBe(atStop);
  });
});
