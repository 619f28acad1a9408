/**
 * All that is remembered about a VM, as elements of its domain's metadata: one element, with a namespace of its own,
 * per writer. virDomainSetMetadata replaces a whole element, so two writers that shared one would carry each other's
 * values away (measured: of 300 updates each of three writers, half were lost).
 */
import type { InstanceAddress, Phase } from '../provider/instance.ts';

const NAMESPACE_ROOT = 'urn:kvm-functions:metadata';

/** Namespace URI and prefix (libvirt's `key`) of every element. The URI's last part is the element's version. */
export const METADATA = {
  identity: { uri: `${NAMESPACE_ROOT}:identity:1`, key: 'kvmfn-identity' },
  phase: { uri: `${NAMESPACE_ROOT}:phase:1`, key: 'kvmfn-phase' },
  started: { uri: `${NAMESPACE_ROOT}:started:1`, key: 'kvmfn-started' },
  lease: { uri: `${NAMESPACE_ROOT}:lease:1`, key: 'kvmfn-lease' },
  labels: { uri: `${NAMESPACE_ROOT}:labels:1`, key: 'kvmfn-labels' },
  protection: { uri: `${NAMESPACE_ROOT}:protection:1`, key: 'kvmfn-protection' },
  deleting: { uri: `${NAMESPACE_ROOT}:deleting:1`, key: 'kvmfn-deleting' },
  address: { uri: `${NAMESPACE_ROOT}:address:1`, key: 'kvmfn-address' },
  scrub: { uri: `${NAMESPACE_ROOT}:scrub:1`, key: 'kvmfn-scrub' },
} as const;
export type MetadataName = keyof typeof METADATA;

/** Where one element stands: its namespace URI and the prefix that it is stored with. */
export interface MetadataPlace {
  readonly uri: string;
  readonly key: string;
}

/** `remaking` elements are one to each worker, so that none takes another's away: the worker ends their URI. */
export const REMAKING_URI = `${NAMESPACE_ROOT}:remaking:1:`;

export function remakingPlace(worker: string): MetadataPlace {
  return { uri: `${REMAKING_URI}${worker}`, key: 'kvmfn-remaking' };
}

/** Written by the define, never again. */
export interface Identity {
  readonly uuid: string;
  readonly fleet: string;
  readonly host: string;
  readonly name: string;
  readonly uid: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly image: string;
  readonly machineType: string;
  readonly diskSizeGb: number;
  readonly autostart: boolean;
  readonly baseVolume: string;
  readonly seedBytes: number;
  /** SHA-256 of UUID and seed: salted, since metadata is readable over libvirt's read-only socket. */
  readonly seedDigest: string;
  /** Whether user-data is to be taken off the seed: what the request says, else what its machine type said then. */
  readonly scrub: boolean;
  /** The request as it was made, field by field; absent fields are left out. */
  readonly requested: Readonly<Record<string, string>>;
}

/** Written by create and its worker. */
export interface PhaseRecord {
  readonly phase: Exclude<Phase, 'deleting'>;
  /** The whole seed has been stored once; kept through `failed`, so that a resumed create need not have the request. */
  readonly seeded: boolean;
  /** libvirt refused the start with an error, so the guest never ran. */
  readonly startRefused: boolean;
  readonly attempt: number;
  /** Milliseconds since the epoch: when the create must have ended. */
  readonly deadline: number;
  readonly error: string | null;
}

/** Written by delete, once, never removed: it outranks every phase. */
export interface DeletingRecord {
  readonly since: number;
  readonly reason: string;
  /** Until when the guest may shut itself down; null when it was destroyed at once. */
  readonly graceUntil: number | null;
}

/** Written by whoever saw the address. */
export interface AddressRecord extends InstanceAddress {
  readonly seenAt: number;
  /** The domain's runtime id when it was seen: another one means a restart since. */
  readonly runtimeId: number;
}

/** Written by whoever scrubs the seed: once before it touches the volume, once when all of it is done. */
export interface ScrubRecord {
  readonly since: number;
  /** Null until the volume was overwritten and read back. */
  readonly doneAt: number | null;
}

export interface Metadata {
  readonly identity: Identity | null;
  readonly phase: PhaseRecord | null;
  /** When a start was first issued; written once, before it. */
  readonly startedAt: number | null;
  readonly expiresAt: number | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly protected: boolean;
  readonly deleting: DeletingRecord | null;
  readonly address: AddressRecord | null;
  readonly scrub: ScrubRecord | null;
  /** Since when workers make the disk again, in milliseconds since the epoch; see remake-claim.ts. */
  readonly remakingSince: readonly number[];
}
