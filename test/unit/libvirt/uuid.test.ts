import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatUuid, parseUuid } from '../../../lib/libvirt/uuid.ts';

describe('a UUID', () => {
  it('is written in lower case with hyphens and read in either case', () => {
    const bytes = Uint8Array.from(Buffer.from('4dea22b31d52d8f32516782e98ab3fa0', 'hex'));

    expect(formatUuid(bytes)).toBe('4dea22b3-1d52-d8f3-2516-782e98ab3fa0');
    expect(parseUuid('4DEA22B3-1D52-D8F3-2516-782E98AB3FA0')).toEqual(bytes);
  });

  it('comes back from text as the same bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        expect(parseUuid(formatUuid(bytes))).toEqual(bytes);
      }),
    );
  });

  it.each([
    '',
    '4dea22b31d52d8f32516782e98ab3fa0',
    '4dea22b3-1d52-d8f3-2516-782e98ab3fa',
    '4dea22b3-1d52-d8f3-2516-782e98ab3fag',
    '4dea22b3-1d52-d8f3-2516-782e98ab3fa0\n',
  ])('is not %j', (uuid) => {
    expect(() => parseUuid(uuid)).toThrow(new RangeError('not a UUID in its hyphenated form'));
  });

  it('has 16 bytes', () => {
    expect(() => formatUuid(new Uint8Array(15))).toThrow(new RangeError('a UUID has 16 bytes, not 15'));
  });
});
