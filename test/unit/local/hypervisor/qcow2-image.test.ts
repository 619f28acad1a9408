import { describe, expect, it } from 'vitest';
import { buildQcow2, readQcow2Header } from '../../../../infra/local/hypervisor/state/qcow2-image.ts';

/** What `qemu-img create` of QEMU 7.2 wrote, for the same request; `-o compat=0.10` where it says so. */
const QEMU_IMG: readonly {
  readonly request: Parameters<typeof buildQcow2>[0];
  readonly length: number;
  readonly head: string;
}[] = [
  {
    request: { virtualSizeBytes: 2 * 1024 ** 3, compat: '0.10' },
    length: 196640,
    head: '514649fb000000020000000000000000000000000000001000000000800000000000000000000004000000000003000000000000000100000000000100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',
  },
  {
    request: {
      virtualSizeBytes: 3 * 1024 ** 3,
      compat: '1.1',
      backing: { path: '/tmp/h/base.raw', format: 'raw' },
    },
    length: 196656,
    head: '514649fb0000000300000000000002100000000f0000001000000000c00000000000000000000006000000000003000000000000000100000000000100000000000000000000000000000000000000000000000000000000000000000000000000000004000000700000000000000000e2792aca0000000372617700000000006803f857000001800000646972747920626974000000000000000000000000000000000000000000000000000000000000000000000000000001636f7272757074206269740000000000000000000000000000000000000000000000000000000000000000000000000265787465726e616c20646174612066696c65000000000000000000000000000000000000000000000000000000000003636f6d7072657373696f6e20747970650000000000000000000000000000000000000000000000000000000000000004657874656e646564204c3220656e747269657300000000000000000000000000000000000000000000000000000001006c617a7920726566636f756e7473000000000000000000000000000000000000000000000000000000000000000002006269746d61707300000000000000000000000000000000000000000000000000000000000000000000000000000002017261772065787465726e616c2064617461000000000000000000000000000000000000000000000000000000000000000000000000002f746d702f682f626173652e726177',
  },
  {
    request: { virtualSizeBytes: 1_500_000 * 1024, compat: '1.1' },
    length: 196632,
    head: '514649fb0000000300000000000000000000000000000010000000005b8d80000000000000000003000000000003000000000000000100000000000100000000000000000000000000000000000000000000000000000000000000000000000000000004000000700000000000000000',
  },
  {
    request: {
      virtualSizeBytes: 10 * 1024 ** 4,
      compat: '0.10',
      backing: { path: '/tmp/h/q1.img', format: 'qcow2' },
    },
    length: 360448,
    head: '514649fb0000000200000000000000600000000d0000001000000a000000000000000000000050000000000000030000000000000001000000000001000000000000000000000000e2792aca0000000571636f773200000000000000000000002f746d702f682f71312e696d67000000',
  },
];

const GIB = 1024 ** 3;

describe('an empty qcow2 image', () => {
  it.each(QEMU_IMG)('is laid out like one of qemu-img: $request', ({ request, length, head }) => {
    const image = Buffer.from(buildQcow2(request));
    const recorded = Buffer.from(head, 'hex');

    expect(image.length).toBe(length);
    // Magic to snapshots: everything that locates data. Feature names are for people and differ.
    expect(image.subarray(0, 8).equals(recorded.subarray(0, 8))).toBe(true);
    expect(image.subarray(20, 72).equals(recorded.subarray(20, 72))).toBe(true);
    expect(readQcow2Header(image)).toEqual(readQcow2Header(recorded));
  });
});

describe('reading a qcow2 header', () => {
  it('finds size, version and backing file with its format', () => {
    const backing = { path: '/var/lib/libvirt/images/base.raw', format: 'raw' };

    expect(readQcow2Header(buildQcow2({ virtualSizeBytes: GIB, compat: '1.1', backing }))).toEqual({
      version: 3,
      virtualSizeBytes: GIB,
      backing,
    });
  });

  it.each([
    ['nothing', new Uint8Array(0)],
    ['zeros', new Uint8Array(100_000)],
    ['a header that is cut off', buildQcow2({ virtualSizeBytes: GIB, compat: '1.1' }).subarray(0, 90)],
    ['text', Buffer.from('<html>'.repeat(100))],
  ])('is not fooled by %s', (_what, bytes) => {
    expect(readQcow2Header(bytes)).toBeUndefined();
  });
});
