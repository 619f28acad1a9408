import { describe, expect, it } from 'vitest';
import { buildOverlayXml, buildRawVolumeXml, parseVolumeXml } from '../../../lib/kvm/volume-xml.ts';
import { elementAt, parseXml } from '../../../lib/libvirt/xml-tree.ts';

const OVERLAY = { name: 'vm-1.disk', capacityBytes: 10_737_418_240, backingPath: '/pool/base & more.qcow2' };

describe('the XML of a volume', () => {
  it.each(['qcow2', 'raw'] as const)(
    'LV-15: names the format of an overlay and that of its base, which is %s',
    (backingFormat) => {
      const volume = parseXml(buildOverlayXml({ ...OVERLAY, backingFormat }));

      expect(elementAt(volume, 'target', 'format')?.attributes).toEqual({ type: 'qcow2' });
      expect(elementAt(volume, 'backingStore', 'format')?.attributes).toEqual({ type: backingFormat });
    },
  );

  it('says of an overlay what libvirt is to make, and that is read back', () => {
    const xml = buildOverlayXml({ ...OVERLAY, backingFormat: 'qcow2' });

    expect(xml).toContain('<compat>1.1</compat>');
    expect(parseVolumeXml(xml)).toEqual({
      capacityBytes: OVERLAY.capacityBytes,
      format: 'qcow2',
      backingPath: OVERLAY.backingPath,
      modifiedAt: null,
    });
  });

  it('says that a raw volume is raw, has its whole size and no base', () => {
    expect(parseVolumeXml(buildRawVolumeXml('seed', 65_536))).toEqual({
      capacityBytes: 65_536,
      format: 'raw',
      backingPath: null,
      modifiedAt: null,
    });
  });
});
