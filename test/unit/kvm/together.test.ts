import { describe, expect, it } from 'vitest';
import { together } from '../../../lib/kvm/together.ts';

describe('steps under way together', () => {
  it('give their results in the order of the list, whoever ends first', async () => {
    const slow = Promise.withResolvers<string>();
    const both = together([slow.promise, Promise.resolve(2), undefined]);
    slow.resolve('slow');

    expect(await both).toEqual(['slow', 2, undefined]);
  });

  it('fail only when none is at work any more', async () => {
    const slow = Promise.withResolvers<void>();
    let hasFailed = false;
    const both = together([Promise.reject(new Error('refused')), slow.promise]);
    const seen = both.catch((error: unknown) => {
      hasFailed = true;
      return error;
    });

    await new Promise((resolve) => setImmediate(resolve));
    expect(hasFailed).toBe(false);
    slow.resolve();

    expect(await seen).toMatchObject({ message: 'refused' });
  });

  it('fail for the first in the list', async () => {
    const failing = [Promise.reject(new Error('first')), Promise.reject(new Error('second'))];

    await expect(together(failing)).rejects.toThrow('first');
  });
});
