import { describe, expect, it } from 'vitest';
import { ImageError } from '../../../lib/image/image-error.ts';
import { kindOf, toProviderError } from '../../../lib/kvm/error-classification.ts';
import {
  LibvirtAuthError,
  LibvirtError,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from '../../../lib/libvirt/errors.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';

const libvirt = (code: number, int1 = 0) =>
  new LibvirtError({
    code,
    domain: 10,
    level: 2,
    message: 'said so',
    int1,
    int2: 0,
    procedure: 'domainCreate',
  });

describe('kindOf', () => {
  it.each([
    [42, 0, 'not-found'],
    [49, 0, 'permanent'],
    [27, 0, 'permanent'],
    [67, 0, 'permanent'],
    [88, 0, 'permanent'],
    [2, 0, 'exhausted'],
    [38, 28, 'exhausted'],
    [38, 19, 'permanent'],
    [38, 2, 'transient'],
    [38, 13, 'transient'],
    [68, 0, 'transient'],
    [55, 0, 'transient'],
    [1, 0, 'transient'],
    [9999, 0, 'transient'],
  ] as const)('says of libvirt code %i with errno %i: %s', (code, errno, kind) => {
    expect(kindOf(libvirt(code, errno))).toBe(kind);
  });

  it('says timeout, transient and permanent of silence, a lost connection and a closed door', () => {
    expect(kindOf(new LibvirtTimeoutError('domainCreate', 5))).toBe('timeout');
    expect(kindOf(new LibvirtTransportError('gone'))).toBe('transient');
    expect(kindOf(new LibvirtAuthError('not you', []))).toBe('permanent');
  });

  it('says of an image what its error says, and exhausted of a pool without room for it', () => {
    expect(kindOf(new ImageError('checksum', 'another one'))).toBe('permanent');
    expect(kindOf(new ImageError('unreachable', 'no answer'))).toBe('transient');
    expect(kindOf(new ImageError('no-space', 'full'))).toBe('exhausted');
  });
});

describe('toProviderError', () => {
  it('LV-06: keeps the cause and says where', () => {
    const cause = libvirt(42);

    const error = toProviderError(cause, { op: 'get', host: 'kvm-a', id: 'kvm-a/vm-1' });

    expect(error).toMatchObject({ kind: 'not-found', op: 'get', host: 'kvm-a', id: 'kvm-a/vm-1', cause });
    expect(error.message).toBe('host kvm-a: said so');
  });

  it('shows nothing of an unforeseen error, whose text may hold anything', () => {
    const error = toProviderError(new TypeError('hunter2'), { op: 'create' });

    expect(error.kind).toBe('internal');
    expect(error.message).not.toContain('hunter2');
  });

  it('wraps once', () => {
    const inner = new ProviderError('conflict', 'taken', { op: 'create' });

    expect(toProviderError(inner, { op: 'list', host: 'kvm-b' })).toBe(inner);
  });
});
