/** Values for any schema of the protocol table, so that a new procedure is tested by being in the table. */
import type { AnySchema, XdrType } from '@stellar/js-xdr';
import fc from 'fast-check';

/** Any Unicode that libvirt's C strings can carry: no NUL, no half of a surrogate pair. */
const text = fc.string({ unit: 'binary', maxLength: 12 }).filter((value) => !value.includes('\0'));

/** 32 bytes with the closing NUL. */
const shortText = text.filter((value) => Buffer.byteLength(value) < 32);

export function arbitraryOf(schema: XdrType<unknown>): fc.Arbitrary<unknown> {
  if (schema.kind === 'text') {
    return text;
  }
  if (schema.kind === 'charArray') {
    return shortText;
  }
  const known = schema as AnySchema;
  switch (known.kind) {
    case 'int32':
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    case 'uint32':
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    case 'int64':
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    case 'uint64':
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    case 'double':
      return fc.double();
    case 'void':
      return fc.constant(undefined);
    case 'opaque':
      return fc.uint8Array({ minLength: known.length, maxLength: known.length });
    case 'option':
      return fc.option(arbitraryOf(known.element));
    case 'array':
      return fc.array(arbitraryOf(known.element), { maxLength: Math.min(3, known.maxLength) });
    case 'struct':
      return fc.record(Object.fromEntries(known.entries.map(([name, field]) => [name, arbitraryOf(field)])));
    case 'union':
      return fc.oneof(
        ...known.cases.map(({ discriminant, arm }) =>
          fc.record({
            [known.switchKey]: fc.constant(discriminant),
            ...('schema' in arm ? { [arm.name]: arbitraryOf(arm.schema) } : {}),
          }),
        ),
      );
    default:
      throw new Error(`no values for a schema of kind ${known.kind}`);
  }
}
