import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { locateJsonFault } from '../../../lib/lambda/json-fault.ts';

const isJson = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

describe('locateJsonFault', () => {
  it.each([
    ['', 1, 1, 'the text ends here; a value was expected'],
    ['{"a": a}', 1, 7, 'a value was expected'],
    ['{"a":1,}', 1, 8, 'a name in double quotes was expected'],
    ['[1,]', 1, 4, 'a value was expected'],
    ['{"a"}', 1, 5, 'a colon was expected'],
    ['[1', 1, 3, 'the text ends here; a comma or the closing bracket was expected'],
    ['{\n  "a": 1\n  "b": 2\n}', 3, 3, 'a comma or the closing bracket was expected'],
    ['{"a":"\n"}', 1, 7, 'a control character in a string must be escaped'],
    ['"\\x"', 1, 2, 'this is not an escape that JSON knows'],
    ['"abc', 1, 5, 'the text ends inside a string'],
    ['1 2', 1, 3, 'the text goes on after its value'],
    ['01', 1, 1, 'a value was expected'],
  ])('finds the fault of %j', (text, line, column, expected) => {
    expect(locateJsonFault(text)).toEqual({ line, column, expected });
  });

  it('finds none in any JSON text, however it is laid out', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 0, 2, '\t'), (value, indent) => {
        expect(locateJsonFault(JSON.stringify(value, null, indent))).toBeNull();
      }),
    );
  });

  it('finds one in exactly the texts that JSON.parse refuses', () => {
    const tokens = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '1',
      '-',
      '0',
      '.5',
      'e3',
      'true',
      ' ',
      '\n',
      '\\',
      'x',
    );
    fc.assert(
      fc.property(fc.array(tokens, { maxLength: 12 }), (parts) => {
        const text = parts.join('');
        expect(locateJsonFault(text) === null).toBe(isJson(text));
      }),
      { numRuns: 5_000 },
    );
  });

  it('takes a hundred thousand brackets without a stack', () => {
    expect(locateJsonFault('['.repeat(100_000))).toMatchObject({ line: 1, column: 100_001 });
  });
});
