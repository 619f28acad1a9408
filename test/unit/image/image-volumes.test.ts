import { describe, expect, it } from 'vitest';
import {
  buildSparseVolumeXml,
  generationVolumeName,
  parseGenerationVolume,
  VOLUME_ROLES,
} from '../../../lib/image/image-volumes.ts';

const BASE = 'kvmfn-base-0123456789abcdef0123456789abcdef.qcow2';

describe('the volumes of an image', () => {
  it.each(VOLUME_ROLES)('are found again by their names: %s', (role) => {
    for (const generation of [1, 9, 10, 123_456]) {
      const name = generationVolumeName(BASE, role, generation);

      expect(parseGenerationVolume(BASE, name)).toEqual({ role, generation });
    }
  });

  it.each([
    BASE,
    `${BASE}.`,
    `${BASE}.0`,
    `${BASE}.01`,
    `${BASE}.1.bak`,
    `${BASE}.claim`,
    `${BASE}.claim.x`,
    `${BASE}.ok.1`,
    `${BASE}2.1`,
    `${BASE}.99999999999999999999`,
    'kvmfn_demo_kvm-a_proxy_0123456789abcdef.disk',
    'kvmfn-base-ffffffffffffffffffffffffffffffff.qcow2.1',
  ])('do not include %s', (name) => {
    expect(parseGenerationVolume(BASE, name)).toBeNull();
  });

  it('are made sparse and raw, whatever the format of the image', () => {
    expect(buildSparseVolumeXml(`${BASE}.1`, 4_294_967_296)).toBe(
      `<volume><name>${BASE}.1</name><capacity unit="bytes">4294967296</capacity>` +
        '<allocation unit="bytes">0</allocation><target><format type="raw"/></target></volume>',
    );
  });
});
