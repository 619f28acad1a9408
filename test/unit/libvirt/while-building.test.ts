import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ERROR_CODE, LibvirtError } from '../../../lib/libvirt/errors.ts';
import { whileBuilding } from '../../../lib/libvirt/while-building.ts';

const refusal = (code: number): LibvirtError =>
  new LibvirtError({
    code,
    domain: 18,
    level: 2,
    message: 'volume is still being allocated',
    int1: 0,
    int2: 0,
    procedure: 'storageVolDelete',
  });

const building = refusal(ERROR_CODE.operationInvalid);

/** Refused so many times, then done; and how often it was asked. */
function doneAfter(refusals: number, error: unknown = building) {
  let asked = 0;
  const attempt = async (): Promise<string> => {
    asked += 1;
    if (asked <= refusals) throw error;
    return 'done';
  };
  return { attempt, asked: () => asked };
}

beforeEach(() => {
  vi.useFakeTimers({ fakeNodeBuiltins: true });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('waiting while a volume is being made', () => {
  it('asks once and not again when nothing is refused', async () => {
    const { attempt, asked } = doneAfter(0);

    expect(await whileBuilding(attempt)).toBe('done');

    expect(asked()).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('asks again a tenth of a second after each refusal', async () => {
    const { attempt, asked } = doneAfter(2);
    const waiting = whileBuilding(attempt);

    await vi.advanceTimersByTimeAsync(99);
    expect(asked()).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(asked()).toBe(2);
    await vi.advanceTimersByTimeAsync(100);

    expect(await waiting).toBe('done');
    expect(asked()).toBe(3);
  });

  it('gives up with the refusal after 15 seconds', async () => {
    const { attempt, asked } = doneAfter(Number.POSITIVE_INFINITY);
    const waiting = expect(whileBuilding(attempt)).rejects.toBe(building);

    await vi.advanceTimersByTimeAsync(14_999);
    expect(asked()).toBe(150);
    await vi.advanceTimersByTimeAsync(1);
    await waiting;

    expect(asked()).toBe(151);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each<[string, unknown]>([
    ['another refusal of the daemon', refusal(ERROR_CODE.noStorageVol)],
    ['an error of that number that is not the daemon’s', Object.assign(new Error('bind'), { code: 55 })],
  ])('throws %s at once', async (_, error) => {
    const { attempt, asked } = doneAfter(1, error);

    await expect(whileBuilding(attempt)).rejects.toBe(error);

    expect(asked()).toBe(1);
  });

  it('asks no more once its signal is aborted', async () => {
    const { attempt, asked } = doneAfter(1);
    const abort = new AbortController();
    const reason = new Error('the invocation ends');
    const waiting = expect(whileBuilding(attempt, abort.signal)).rejects.toBe(reason);

    abort.abort(reason);
    await vi.advanceTimersByTimeAsync(100);
    await waiting;

    expect(asked()).toBe(1);
  });
});
