/**
 * Names of a VM's own volumes: `kvmfn_<fleet>_<host>_<name>_<16 hex of the UUID>.<kind>`. Every part is a DNS label
 * or hex, in which `_` cannot occur, so two VMs never share a name and a name tells whose it is. The host is part of
 * it because two hosts may mount one pool, and neither may collect the other's disks.
 */

export const VOLUME_KINDS = ['disk', 'seed'] as const;
export type VolumeKind = (typeof VOLUME_KINDS)[number];

export interface VolumeOwner {
  readonly fleet: string;
  readonly host: string;
  readonly name: string;
  readonly uuid: string;
}

export interface VolumeName {
  readonly fleet: string;
  readonly host: string;
  readonly name: string;
  /** The first 16 hex digits of the domain's UUID. */
  readonly uuidPart: string;
  readonly kind: VolumeKind;
}

const PATTERN = /^kvmfn_([a-z0-9-]+)_([a-z0-9-]+)_([a-z0-9-]+)_([0-9a-f]{16})\.(disk|seed)$/;

export function volumeName(owner: VolumeOwner, kind: VolumeKind): string {
  return `kvmfn_${owner.fleet}_${owner.host}_${owner.name}_${uuidPart(owner.uuid)}.${kind}`;
}

/** Null for every volume that is not a VM's: base images, sidecars, an administrator's own files. */
export function parseVolumeName(volume: string): VolumeName | null {
  const match = PATTERN.exec(volume);
  if (match === null) return null;
  const [, fleet = '', host = '', name = '', part = '', kind] = match;
  return { fleet, host, name, uuidPart: part, kind: kind === 'disk' ? 'disk' : 'seed' };
}

export function uuidPart(uuid: string): string {
  return uuid.replaceAll('-', '').slice(0, 16);
}
