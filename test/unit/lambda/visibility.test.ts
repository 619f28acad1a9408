import { describe, expect, it } from 'vitest';
import { backoffSeconds, whileHeld } from '../../../lib/lambda/visibility.ts';
import { createTestRuntime } from './test-runtime.ts';

const RECORD = { messageId: '1', receiptHandle: 'h', body: '', receiveCount: 1 };

describe('backoffSeconds', () => {
  it('doubles with every delivery up to a quarter of an hour', () => {
    const whole = [1, 2, 3, 4, 5, 6, 7, 8, 50].map((count) => backoffSeconds(count, 'transient', 1));

    expect(whole).toEqual([15, 30, 60, 120, 240, 480, 900, 900, 900]);
  });

  it('spreads over the upper half', () => {
    expect([0, 0.5].map((random) => backoffSeconds(4, 'timeout', random))).toEqual([60, 90]);
  });

  it('waits longer for a host without room', () => {
    expect(backoffSeconds(1, 'exhausted', 1)).toBe(60);
  });
});

describe('whileHeld', () => {
  it('ends only after a renewal that was on its way, which would undo the back-off set next', async () => {
    const order: string[] = [];
    let startRenewal: () => void = () => undefined;
    let finishRenewal: () => void = () => undefined;
    const runtime = createTestRuntime({
      pause: (_, signal) =>
        new Promise((resolve) => {
          startRenewal = resolve;
          signal.addEventListener('abort', () => resolve());
        }),
      queue: {
        send: async () => undefined,
        setVisibility: async () => {
          order.push('renewal begins');
          if (order.length === 1) return;
          await new Promise<void>((resolve) => {
            finishRenewal = resolve;
          });
          order.push('renewal ends');
        },
      },
    });

    const held = whileHeld(runtime, RECORD, runtime.logger, async () => {
      startRenewal();
      await new Promise((resolve) => setImmediate(resolve));
      setTimeout(() => finishRenewal(), 10);
    });
    await held;
    order.push('released');

    expect(order).toEqual(['renewal begins', 'renewal begins', 'renewal ends', 'released']);
  });

  it('works on when the queue cannot be told', async () => {
    const runtime = createTestRuntime({
      queue: { send: async () => undefined, setVisibility: () => Promise.reject(new Error('no route')) },
    });

    expect(await whileHeld(runtime, RECORD, runtime.logger, async () => 'done')).toBe('done');
    expect(runtime.logged.join('')).toContain('no route');
  });
});
