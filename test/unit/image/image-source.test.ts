import { describe, expect, it } from 'vitest';
import {
  baseVolumeName,
  displayUrl,
  type ImageSource,
  parseChecksum,
} from '../../../lib/image/image-source.ts';

const HEX = '0123456789abcdef';
const source: ImageSource = {
  name: 'debian-12',
  url: 'https://user:word@images.example/debian.qcow2?X-Amz-Signature=secret',
  format: 'qcow2',
  checksum: `sha256:${HEX.repeat(4)}`,
};

describe('the base volume name', () => {
  it('says the content and the format, not the name or the address', () => {
    const moved = { ...source, name: 'stable', url: 'file:///srv/stable.qcow2' };

    expect(baseVolumeName(source)).toBe(`kvmfn-base-${HEX.repeat(2)}.qcow2`);
    expect(baseVolumeName(moved)).toBe(baseVolumeName(source));
  });

  it('differs for other content and for the same bytes declared as another format', () => {
    const names = [
      source,
      { ...source, checksum: `sha256:${'1'.repeat(64)}` },
      { ...source, format: 'raw' as const },
    ].map(baseVolumeName);

    expect(new Set(names).size).toBe(3);
  });

  it('is the same for a checksum in capitals', () => {
    expect(baseVolumeName({ ...source, checksum: source.checksum.toUpperCase() })).toBe(
      baseVolumeName(source),
    );
  });
});

describe('a checksum', () => {
  it('is sha256 or sha512', () => {
    expect(parseChecksum(source)).toEqual({ algorithm: 'sha256', hex: HEX.repeat(4) });
    expect(parseChecksum({ ...source, checksum: `sha512:${HEX.repeat(8)}` }).algorithm).toBe('sha512');
  });

  it.each([
    '',
    'sha256:',
    `md5:${HEX.repeat(2)}`,
    `sha256:${HEX.repeat(8)}`,
    `sha512:${HEX.repeat(4)}`,
    HEX.repeat(4),
  ])('is refused when it is %j', (checksum) => {
    expect(() => parseChecksum({ ...source, checksum })).toThrow(
      expect.objectContaining({ name: 'ImageError', reason: 'source', retryable: false }),
    );
  });
});

it('an address is shown without what may be a credential', () => {
  expect(displayUrl(source)).toBe('https://images.example/debian.qcow2');
});
