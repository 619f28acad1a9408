/** Volume and pool XML, read and written as libvirt's storage driver does. */
import { configUnsupported, ERROR_DOMAIN, operationInvalid, xmlError } from '../daemon/daemon-error.ts';
import type { HostFile, HostFiles } from './host-files.ts';
import type { Qcow2Backing } from './qcow2-image.ts';
import type { StoragePool, Volume, VolumeInspection } from './storage-pool.ts';
import { bytesOf, parseRoot } from './xml-input.ts';
import { formatLibvirtXml } from './xml-text.ts';
import { attribute, element, find, textOf, type XmlElement } from './xml-tree.ts';

export interface VolumeRequest {
  readonly name: string;
  /** In bytes; undefined only for an overlay, which then takes the size of what it stands on. */
  readonly capacity: number | undefined;
  readonly format: string;
  readonly compat: '0.10' | '1.1';
  readonly backing: Qcow2Backing | undefined;
}

const FORMATS = [
  'raw',
  'qcow2',
  'qcow',
  'vmdk',
  'vdi',
  'vpc',
  'qed',
  'iso',
  'dir',
  'bochs',
  'cloop',
  'cow',
  'dmg',
  'luks',
];

/** @throws DaemonError with libvirt's code for each kind of fault. */
export function parseVolume(xml: string): VolumeRequest {
  const root = parseRoot(xml, {
    root: 'volume',
    source: '(storage_volume_definition)',
    domain: ERROR_DOMAIN.storage,
  });
  const name = textOf(find(root, 'name'))?.trim() ?? '';
  const format = attribute(find(root, 'target/format'), 'type') ?? 'raw';
  const backingPath = textOf(find(root, 'backingStore/path'))?.trim();
  if (name === '') {
    throw xmlError(ERROR_DOMAIN.storage, 'missing volume name element');
  }
  if (name.includes('/')) {
    throw operationInvalid(ERROR_DOMAIN.storage, `volume name '${name}' cannot contain '/'`);
  }
  if (!FORMATS.includes(format)) {
    throw configUnsupported(ERROR_DOMAIN.storage, `unknown volume format type ${format}`);
  }
  return {
    name,
    format,
    capacity: capacityOf(root, backingPath !== undefined),
    compat: textOf(find(root, 'target/compat'))?.trim() === '1.1' ? '1.1' : '0.10',
    backing: backingPath
      ? { path: backingPath, format: attribute(find(root, 'backingStore/format'), 'type') }
      : undefined,
  };
}

export const formatVolume = (volume: Volume, seen: VolumeInspection, files: HostFiles): string =>
  formatLibvirtXml(
    element(
      'volume',
      { type: 'file' },
      element('name', {}, volume.name),
      element('key', {}, volume.path),
      bytes('capacity', seen.capacity),
      bytes('allocation', seen.allocation),
      bytes('physical', seen.physical),
      element(
        'target',
        {},
        element('path', {}, volume.path),
        element('format', { type: seen.format }),
        ...ownership(seen.file),
        // 0.10 is what libvirt says nothing about.
        ...(seen.compat === '1.1' ? [element('compat', {}, seen.compat)] : []),
      ),
      ...(seen.backing ? [backingStore(seen.backing, files)] : []),
    ),
  );

/** @throws DaemonError xmlError */
export function parsePool(xml: string): { name: string; uuid: string | undefined; targetPath: string } {
  const root = parseRoot(xml, {
    root: 'pool',
    source: '(storage_pool_definition)',
    domain: ERROR_DOMAIN.storage,
  });
  const type = attribute(root, 'type') ?? '';
  const name = textOf(find(root, 'name'))?.trim();
  const targetPath = textOf(find(root, 'target/path'))?.trim();
  if (type !== 'dir') {
    throw xmlError(ERROR_DOMAIN.xml, `Invalid value for attribute 'type' in element 'pool': '${type}'.`);
  }
  if (!name) {
    throw xmlError(ERROR_DOMAIN.storage, 'missing pool source name element');
  }
  if (!targetPath) {
    throw xmlError(ERROR_DOMAIN.storage, 'missing storage pool target path');
  }
  return { name, uuid: textOf(find(root, 'uuid'))?.trim().toLowerCase(), targetPath };
}

export const formatPool = (pool: StoragePool, files: HostFiles): string =>
  formatLibvirtXml(
    element(
      'pool',
      { type: 'dir' },
      element('name', {}, pool.name),
      element('uuid', {}, pool.uuid),
      bytes('capacity', pool.isActive ? files.capacityBytes : 0),
      bytes('allocation', pool.isActive ? files.allocatedBytes : 0),
      bytes('available', pool.isActive ? files.availableBytes : 0),
      element('source'),
      element('target', {}, element('path', {}, pool.targetPath)),
    ),
  );

const bytes = (name: string, value: number): XmlElement => element(name, { unit: 'bytes' }, String(value));

const ownership = (file: HostFile): XmlElement[] => [
  element(
    'permissions',
    {},
    element('mode', {}, file.mode),
    element('owner', {}, '0'),
    element('group', {}, '0'),
  ),
  element(
    'timestamps',
    {},
    element('atime', {}, timestamp(file.atime)),
    element('mtime', {}, timestamp(file.mtime)),
    element('ctime', {}, timestamp(file.ctime)),
    element('btime', {}, '0'),
  ),
];

/** Seconds and nanoseconds, as stat(2) gives them. */
const timestamp = (epochMs: number): string =>
  `${Math.floor(epochMs / 1000)}.${String(Math.floor((epochMs % 1000) * 1_000_000)).padStart(9, '0')}`;

function backingStore(backing: Qcow2Backing, files: HostFiles): XmlElement {
  const file = files.get(backing.path);
  return element(
    'backingStore',
    {},
    element('path', {}, backing.path),
    element('format', { type: backing.format ?? 'raw' }),
    ...(file ? ownership(file) : []),
  );
}

function capacityOf(root: XmlElement, isOverlay: boolean): number | undefined {
  const size = find(root, 'capacity');
  if (!size) {
    if (isOverlay) {
      return undefined;
    }
    throw xmlError(ERROR_DOMAIN.storage, 'missing capacity element');
  }
  const value = bytesOf(size, 'bytes');
  if (value === undefined) {
    throw xmlError(ERROR_DOMAIN.storage, 'malformed capacity element');
  }
  return Number(value);
}
