import { describe, expect, it } from 'vitest';
import { createInput } from '../../../lib/lambda/request-schema.ts';
import { validate } from '../../../lib/lambda/validation.ts';

const request = { name: 'vm-1', placement: { machineType: 'small', image: 'debian-12' } };
const faultsOf = (input: object) => {
  const checked = validate(createInput, { ...request, ...input });
  return checked.ok ? [] : checked.faults;
};

describe('the faults of an input', () => {
  it.each([1e300, 2 ** 53, -1, 0.5])(
    'name a wrong number once, whatever rules it breaks: %d',
    (diskSizeGb) => {
      expect(faultsOf({ diskSizeGb })).toEqual([
        { pointer: '/diskSizeGb', detail: 'must be a whole number from 1 to 65536' },
      ]);
    },
  );

  it('name a place once for each thing that is wrong with it', () => {
    expect(faultsOf({ labels: { 'a b': 'c d', e: 'f g' } }).map(({ pointer }) => pointer)).toEqual([
      '/labels/a b',
      '/labels/e',
    ]);
  });

  it('do not go through the labels when there are too many of them', () => {
    const labels = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`no label ${index}`, 'v']));

    expect(faultsOf({ labels })).toEqual([{ pointer: '/labels', detail: 'must be at most 32 labels' }]);
  });

  it.each([null, 'role=proxy', 7, ['role']])('say that labels are an object: %j', (labels) => {
    expect(faultsOf({ labels })).toEqual([{ pointer: '/labels', detail: 'must be a JSON object' }]);
  });
});
