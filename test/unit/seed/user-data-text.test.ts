import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { decodeText, decodeUserData, MAX_USER_DATA_BYTES } from '../../../lib/seed/user-data-text.ts';

const TEXT = '#cloud-config\nhostname: z1\n';
const zipped = gzipSync(TEXT);

describe('decodeUserData', () => {
  it('UD-07: undoes base64 and gzip when the encoding says so, and the result merges', () => {
    const bytes = decodeUserData(zipped.toString('base64'), 'base64');

    expect(Buffer.from(bytes).toString()).toBe(TEXT);
    expect(prepareUserData(bytes, '').kind).toBe('cloud-config');
  });

  it('UD-07: without an encoding base64 is refused with that word', () => {
    const bytes = decodeUserData(zipped.toString('base64'));

    expect(() => prepareUserData(bytes, '')).toThrow('looks like base64');
  });

  it('UD-07: gzip that reaches the seed undone is refused', () => {
    expect(() => prepareUserData(zipped, '')).toThrow('gzip');
    expect(() => prepareUserData(decodeUserData(gzipSync(zipped).toString('base64'), 'base64'), '')).toThrow(
      'gzip',
    );
  });

  it('keeps bytes that are no text', () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => 255 - index);

    expect(decodeUserData(Buffer.from(bytes).toString('base64'), 'base64')).toEqual(Buffer.from(bytes));
  });

  it('takes base64 with line breaks', () => {
    const wrapped = Buffer.from(TEXT.repeat(9)).toString('base64').replaceAll(/.{76}/g, '$&\r\n');

    expect(Buffer.from(decodeUserData(wrapped, 'base64')).toString()).toBe(TEXT.repeat(9));
  });

  it.each(['a', 'ab', 'abc', 'abcde===', 'ab=c', 'ab c=', 'ab\u00e9=', '=abc', 'abcd=', 'ab==ab=='])(
    'refuses %j as base64',
    (text) => {
      expect(() => decodeUserData(text, 'base64')).toThrow('not base64');
    },
  );

  it('names base64url', () => {
    expect(() => decodeUserData('a-_b', 'base64')).toThrow('base64url');
  });

  it('stops a gzip that unfolds beyond the limit', () => {
    const bomb = gzipSync(Buffer.alloc(MAX_USER_DATA_BYTES + 1));

    expect(bomb.length).toBeLessThan(10_000);
    expect(() => decodeUserData(bomb.toString('base64'), 'base64')).toThrow('when decompressed');
  });

  it('takes a gzip that unfolds to the limit', () => {
    const bytes = gzipSync(Buffer.alloc(MAX_USER_DATA_BYTES));

    expect(decodeUserData(bytes.toString('base64'), 'base64')).toHaveLength(MAX_USER_DATA_BYTES);
  });

  it('refuses gzip that was cut off', () => {
    expect(() => decodeUserData(zipped.subarray(0, 20).toString('base64'), 'base64')).toThrow('damaged gzip');
  });

  it('refuses half a surrogate pair with its place', () => {
    expect(() => decodeUserData('#!\n \ud800')).toThrow(expect.objectContaining({ line: 2, column: 2 }));
  });

  it('refuses what is too long', () => {
    expect(() => decodeUserData(`#${' '.repeat(MAX_USER_DATA_BYTES)}`)).toThrow('longer than');
  });
});

describe('decodeText', () => {
  it.each(['utf16le', 'utf16be'] as const)(
    'UD-02: names UTF-16 (%s), with and without its mark',
    (encoding) => {
      const swap = (bytes: Buffer) => (encoding === 'utf16be' ? bytes.swap16() : bytes);

      expect(() => decodeText(swap(Buffer.from(`\uFEFF${TEXT}`, 'utf16le')))).toThrow('UTF-16');
      expect(() => decodeText(swap(Buffer.from(TEXT, 'utf16le')))).toThrow('UTF-16');
    },
  );

  it('takes one mark away and not two', () => {
    expect(decodeText(Buffer.from('\uFEFF\uFEFFa'))).toBe('\uFEFFa');
  });

  it.each([
    [
      Buffer.concat([Buffer.from('#cloud-config\nname: M'), Buffer.from([0xfc]), Buffer.from('ller\n')]),
      2,
      8,
    ],
    [Buffer.concat([Buffer.from('é\uFFFDx'), Buffer.from([0xc3])]), 1, 4],
    [Buffer.from([0x23, 0xed, 0xa0, 0x80]), 1, 2],
  ])('gives the place of the first byte that is not UTF-8 (%#)', (bytes, line, column) => {
    expect(() => decodeText(bytes)).toThrow(expect.objectContaining({ line, column }));
  });

  it('reads nothing as nothing', () => {
    expect(decodeText(new Uint8Array())).toBe('');
  });
});
