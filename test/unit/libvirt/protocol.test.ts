import { int64, uint64, type XdrType } from '@stellar/js-xdr';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { domain } from '../../../lib/libvirt/objects.ts';
import { PROGRAM, type Procedure, procedureName, procedures } from '../../../lib/libvirt/protocol.ts';
import { remoteError } from '../../../lib/libvirt/remote-error.ts';
import { charArray, text } from '../../../lib/libvirt/text.ts';
import { arbitraryOf } from './schema-arbitrary.ts';

const table: readonly (readonly [string, Procedure])[] = Object.entries(procedures);
const schemas: readonly (readonly [string, XdrType<unknown>])[] = [
  ...table.flatMap(([name, { args, result }]) => [
    [`${name} arguments`, args] as const,
    [`${name} result`, result] as const,
  ]),
  ['remote_error', remoteError],
];
const RUNS = { numRuns: 50 };

describe('every schema of the protocol', () => {
  it.each(schemas)('%s: what is encoded decodes to the same', (_, schema) => {
    fc.assert(
      fc.property(arbitraryOf(schema), (value) => {
        expect(schema.decode(schema.encode(value))).toEqual(value);
      }),
      RUNS,
    );
  });

  it.each(schemas)('%s: every truncation and a byte too many are refused', (_, schema) => {
    fc.assert(
      fc.property(arbitraryOf(schema), (value) => {
        const bytes = schema.encode(value);
        for (let length = 0; length < bytes.length; length += 1) {
          expect(() => schema.decode(bytes.subarray(0, length))).toThrow(
            expect.objectContaining({ name: 'XdrError' }),
          );
        }
        expect(() => schema.decode(Buffer.concat([bytes, Buffer.alloc(1)]))).toThrow(
          expect.objectContaining({ name: 'XdrError' }),
        );
      }),
      { numRuns: 5 },
    );
  });
});

describe('the procedure table', () => {
  const idOf = ({ program = 'remote', number }: Procedure) => ({
    program: PROGRAM[program],
    procedure: number,
  });

  it('gives each procedure a number of its own within its program, and finds it by both', () => {
    const ids = table.map(([, procedure]) => idOf(procedure));

    expect(new Set(ids.map(({ program, procedure }) => `${program}:${procedure}`)).size).toBe(ids.length);
    for (const [name, procedure] of table) {
      expect(procedureName(idOf(procedure))).toBe(name);
    }
    expect(procedureName({ program: PROGRAM.remote, procedure: 9_999 })).toBeUndefined();
  });

  it('does not take a number of one program for the same number of another', () => {
    const { number } = procedures.domainAgentCommand;

    expect(procedureName({ program: PROGRAM.qemu, procedure: number })).toBe('domainAgentCommand');
    expect(procedureName({ program: PROGRAM.remote, procedure: number })).toBeUndefined();
    expect(procedureName({ program: 0x2000_8088, procedure: number })).toBeUndefined();
  });
});

describe('64-bit numbers', () => {
  it('LV-19: out of range is refused instead of wrapped', () => {
    expect(() => uint64().encode(-1n)).toThrow(/range/);
    expect(() => uint64().encode(2n ** 64n)).toThrow(/range/);
    expect(() => int64().encode(2n ** 63n)).toThrow(/range/);
    expect(() => int64().encode(-(2n ** 63n) - 1n)).toThrow(/range/);
    expect(int64().decode(int64().encode(-(2n ** 63n)))).toBe(-(2n ** 63n));
  });

  it('LV-19: a capacity beyond the safe integers stays what it is', () => {
    const { result } = procedures.storageVolGetInfo;
    const info = { type: 0, capacity: 9_007_199_254_740_993n, allocation: 2n ** 64n - 1n };

    expect(result.decode(result.encode(info))).toEqual(info);
  });
});

describe('text', () => {
  it.each([
    ['', '00000000'],
    ['a', '0000000161000000'],
    ['ab', '0000000261620000'],
    ['abc', '0000000361626300'],
    ['abcd', '0000000461626364'],
    ['ü', '00000002c3bc0000'],
  ])('LV-19: %j is padded to four bytes', (value, hex) => {
    expect(Buffer.from(text().encode(value)).toString('hex')).toBe(hex);
    expect(text().decode(Buffer.from(hex, 'hex'))).toBe(value);
  });

  it('LV-19: a length beyond the bytes that are there, or beyond the limit, is refused', () => {
    expect(() => text().decode(Buffer.from('0000000561626364', 'hex'))).toThrow(/incomplete/);
    expect(() => text().decode(Buffer.from('ffffffff61626364', 'hex'))).toThrow(/exceeds maximum/);
    expect(() => text(3).encode('abcd')).toThrow(/exceeds maximum/);
  });

  it('decodes bytes that are not UTF-8, and keeps a byte order mark', () => {
    expect(text().decode(Buffer.from('0000000261ff0000', 'hex'))).toBe('a\ufffd');
    expect(text().decode(Buffer.from('00000003efbbbf00', 'hex'))).toBe('\ufeff');
  });

  it('ends at its first NUL, as it does for every reader of C strings', () => {
    expect(text().decode(Buffer.from('0000000361006200', 'hex'))).toBe('a');
    expect(text().decode(Buffer.from('0000000100000000', 'hex'))).toBe('');
  });

  it.each(['a\0b', '\0', 'a\ud800'])('refuses to send %j, which would arrive as something else', (value) => {
    expect(() => domain.encode({ name: value, uuid: new Uint8Array(16), id: -1 })).toThrow(
      /well-formed text/,
    );
  });

  it('of a fixed length ends at its first NUL and needs room for it', () => {
    const model = charArray(4);
    const chars = (values: readonly number[]): Uint8Array => {
      const bytes = Buffer.alloc(16);
      values.forEach((value, index) => {
        bytes.writeInt32BE(value, index * 4);
      });
      return bytes;
    };

    expect(model.decode(chars([0x61, 0x62, 0, 0x63]))).toBe('ab');
    expect(model.decode(chars([0x61, 0x62, 0x63, 0x64]))).toBe('abcd');
    expect(Buffer.from(model.encode('ü'))).toEqual(chars([-61, -68, 0, 0]));
    expect(() => model.encode('abcd')).toThrow(/less than 4 bytes/);
    expect(() => model.encode('a\0')).toThrow(/without NUL/);
  });
});
