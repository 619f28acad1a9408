import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCodeName, LibvirtError } from '../../../lib/libvirt/errors.ts';
import { buildRemoteError, decodeRemoteError, remoteError } from '../../../lib/libvirt/remote-error.ts';

const decode = (payload: Uint8Array): LibvirtError => decodeRemoteError(payload, 'domainLookupByName');
const noDomain = buildRemoteError({ code: 42, domain: 10, message: 'no domain', int1: 7, int2: -1 });

describe('an error of the daemon', () => {
  it('LV-06: keeps code, domain, level and numbers, and has a clean message', () => {
    expect(decode(remoteError.encode(noDomain))).toMatchObject({
      name: 'LibvirtError',
      code: 42,
      domain: 10,
      level: 2,
      int1: 7,
      int2: -1,
      message: 'no domain',
      procedure: 'domainLookupByName',
    });
  });

  it('LV-06: without a message names its code', () => {
    expect(decode(remoteError.encode({ ...noDomain, message: null })).message).toBe('libvirt: noDomain');
    expect(decode(remoteError.encode({ ...noDomain, message: ' \n', code: 777 })).message).toBe(
      'libvirt: code 777',
    );
    expect(errorCodeName(90)).toBe('storageVolExist');
  });

  it('LV-06: is one line of text whatever bytes its message has', () => {
    const payload = Buffer.from(remoteError.encode({ ...noDomain, message: 'a\tb\u0007\r\n ccc' }));
    payload.write('\xff\xfe', payload.indexOf('ccc'), 'latin1');

    expect(decode(payload).message).toBe('a b \ufffd\ufffdc');
  });

  it('LV-06: carries the objects that it may name', () => {
    const uuid = new Uint8Array(16);
    const named = { ...noDomain, dom: { name: 'vm1', uuid, id: 3 }, str1: 'x', net: { name: 'n', uuid } };

    expect(decode(remoteError.encode(named))).toMatchObject({ code: 42, int1: 7 });
  });

  it('LV-06: keeps its code when the tail is cut anywhere, or longer than known', () => {
    const payload = remoteError.encode(noDomain);
    // code, domain, pointer, length and the padded message
    const head = 12 + 4 + 12;

    for (let length = head; length < payload.length; length += 1) {
      const { code, domain, message, level, int1, int2 } = decode(payload.subarray(0, length));
      expect({ code, domain, message }).toEqual({ code: 42, domain: 10, message: 'no domain' });
      // What is missing is what it is most often, and never undefined: whoever decides by errno must find a number.
      expect({ level, int1, int2 }).toEqual({ level: 2, int1: 0, int2: 0 });
    }
    expect(decode(Buffer.concat([payload, Buffer.alloc(12)]))).toMatchObject({ code: 42, int1: 7 });
    for (let length = 0; length < head; length += 1) {
      expect(() => decode(payload.subarray(0, length))).toThrow(
        expect.objectContaining({ name: 'XdrError' }),
      );
    }
  });

  it('LV-06: is an error or refused, for any bytes at all', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (payload) => {
        try {
          expect(decode(payload)).toBeInstanceOf(LibvirtError);
        } catch (error) {
          expect(error).toMatchObject({ name: 'XdrError' });
        }
      }),
    );
  });
});
