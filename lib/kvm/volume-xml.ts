/** Volume XML: what a VM's volumes are created from, and what is read back of a volume and a pool. */
import { buildXml, elementAt, parseXml, textAt } from '../libvirt/xml-tree.ts';

export const GIB = 1024 ** 3;

export interface OverlaySpec {
  readonly name: string;
  readonly capacityBytes: number;
  readonly backingPath: string;
  readonly backingFormat: 'qcow2' | 'raw';
}

export interface VolumeDescription {
  readonly capacityBytes: number;
  readonly format: string | null;
  readonly backingPath: string | null;
  /** Milliseconds since the epoch by the host's clock; null when libvirt does not say. */
  readonly modifiedAt: number | null;
}

/**
 * A qcow2 overlay. Both formats are named: without them libvirt 6 and newer refuse the backing file or make the
 * overlay raw (LV-15). compat 1.1, since the default is still 0.10.
 */
export function buildOverlayXml(spec: OverlaySpec): string {
  return buildXml({
    tag: 'volume',
    children: [
      { tag: 'name', text: spec.name },
      { tag: 'capacity', attributes: { unit: 'bytes' }, text: spec.capacityBytes },
      { tag: 'allocation', attributes: { unit: 'bytes' }, text: 0 },
      {
        tag: 'target',
        children: [
          { tag: 'format', attributes: { type: 'qcow2' } },
          { tag: 'compat', text: '1.1' },
        ],
      },
      {
        tag: 'backingStore',
        children: [
          { tag: 'path', text: spec.backingPath },
          { tag: 'format', attributes: { type: spec.backingFormat } },
        ],
      },
    ],
  });
}

export function buildRawVolumeXml(name: string, capacityBytes: number): string {
  return buildXml({
    tag: 'volume',
    children: [
      { tag: 'name', text: name },
      { tag: 'capacity', attributes: { unit: 'bytes' }, text: capacityBytes },
      { tag: 'allocation', attributes: { unit: 'bytes' }, text: capacityBytes },
      { tag: 'target', children: [{ tag: 'format', attributes: { type: 'raw' } }] },
    ],
  });
}

/** @throws XmlError */
export function parseVolumeXml(xml: string): VolumeDescription {
  const volume = parseXml(xml);
  return {
    capacityBytes: Number(textAt(volume, 'capacity')?.trim() ?? 0),
    format: elementAt(volume, 'target', 'format')?.attributes['type'] ?? null,
    backingPath: textAt(volume, 'backingStore', 'path')?.trim() ?? null,
    modifiedAt: parseTimestamp(textAt(volume, 'target', 'timestamps', 'mtime')),
  };
}

/** Pool type and target directory. @throws XmlError */
export function parsePoolXml(xml: string): { readonly type: string; readonly targetPath: string | null } {
  const pool = parseXml(xml);
  return { type: pool.attributes['type'] ?? '', targetPath: textAt(pool, 'target', 'path')?.trim() ?? null };
}

/** libvirt writes `seconds.nanoseconds`, and no fraction when it is zero. */
function parseTimestamp(text: string | null): number | null {
  const match = /^(\d+)(?:\.(\d{1,9}))?$/.exec(text?.trim() ?? '');
  if (match === null) return null;
  const millis = Number(`0.${match[2] ?? '0'}`) * 1000;
  return Number(match[1]) * 1000 + Math.floor(millis);
}
