/**
 * Writes values as one line of YAML that PyYAML reads back as the same values, whatever they contain. JSON alone
 * would not do: YAML refuses some characters that JSON leaves bare, and reads 1e21 as a string.
 */

export type PlainValue =
  | null
  | boolean
  | number
  | string
  | readonly PlainValue[]
  | { readonly [key: string]: PlainValue };

/** @param value numbers must be finite */
export function renderYaml(value: PlainValue): string {
  if (typeof value === 'string') {
    return quoteYaml(value);
  }
  if (typeof value === 'number') {
    return renderNumber(value);
  }
  if (value === null || typeof value === 'boolean') {
    return String(value);
  }
  if (isList(value)) {
    return `[${value.map(renderYaml).join(', ')}]`;
  }
  const pairs = Object.entries(value).map(([key, item]) => `${quoteYaml(key)}: ${renderYaml(item)}`);
  return `{${pairs.join(', ')}}`;
}

/** A double-quoted scalar: no character beyond printable ASCII is left bare, so nothing can end or change it. */
export function quoteYaml(text: string): string {
  const escaped = text.replaceAll(/["\\]|[^\x20-\x7e]/gu, (character) => {
    if (character === '"' || character === '\\') {
      return `\\${character}`;
    }
    const code = (character.codePointAt(0) ?? 0).toString(16);
    return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\U${code.padStart(8, '0')}`;
  });
  return `"${escaped}"`;
}

/** YAML 1.1 wants a point and a signed exponent in a float: 1e21 is written 1.0e+21. */
function renderNumber(value: number): string {
  const [mantissa = '', exponent] = String(value).split('e');
  if (exponent === undefined) {
    return mantissa;
  }
  const sign = /^[+-]/.test(exponent) ? '' : '+';
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}e${sign}${exponent}`;
}

/** Array.isArray does not narrow a readonly array away from the rest of the union. */
function isList(value: PlainValue): value is readonly PlainValue[] {
  return Array.isArray(value);
}
