/**
 * What callers see of a VM. The shape is the public contract: fields may be added, never renamed.
 */

export const INSTANCE_STATES = ['Provisioning', 'Running', 'Stopped', 'Deleting', 'Failed'] as const;
export type InstanceState = (typeof INSTANCE_STATES)[number];

/** How far a create has come. Stored in the domain's metadata; `deleting` outranks every other. */
export const PHASES = [
  'reserved',
  'seeded',
  'importing-image',
  'starting',
  'ready',
  'failed',
  'deleting',
] as const;
export type Phase = (typeof PHASES)[number];

export interface InstanceAddress {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** Lower case, colon separated. */
  readonly mac: string;
  readonly source: 'agent' | 'arp';
}

/** In `cloud-init status`'s own words; `degraded` is its "degraded done", `unknown` what cannot be asked or understood. */
export const CLOUD_INIT_STATES = ['running', 'done', 'degraded', 'error', 'disabled', 'unknown'] as const;
export type CloudInitState = (typeof CLOUD_INIT_STATES)[number];

export interface Readiness {
  readonly cloudInit: CloudInitState;
  /** Which stage, how many errors, what to do: never a word of the guest's, which may quote user-data. */
  readonly detail: string | null;
}

/** `overdue`: the create's deadline passed before cloud-init was done; a repeat of the request goes on. */
export const SCRUB_STATES = ['pending', 'done', 'overdue'] as const;
export type ScrubState = (typeof SCRUB_STATES)[number];

export interface Instance {
  /** `host/name`: carries the host, so it finds the VM whatever placement says later. */
  readonly id: string;
  readonly host: string;
  readonly name: string;
  readonly uid: string;
  readonly fleet: string;
  readonly state: InstanceState;
  readonly phase: Phase;
  /** Why it is not Running: what it waits for, since when, until when. Null when Running. */
  readonly reason: string | null;
  /** Bytes of the image import that have arrived; null when none is under way. */
  readonly progress: { readonly doneBytes: number; readonly totalBytes: number | null } | null;
  /** The address to reach it at; null until one was seen. */
  readonly ip: string | null;
  readonly addresses: readonly InstanceAddress[];
  readonly image: string;
  readonly machineType: string;
  readonly diskSizeGb: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly protected: boolean;
  /** RFC 3339, UTC, milliseconds. */
  readonly createdAt: string;
  readonly expiresAt: string | null;
  /** Only where the configuration asks guests for it, and only of a `get`; null while the VM does not run. */
  readonly readiness?: Readiness | null;
  /** Only for VMs whose user-data is to be taken off the seed; `at` (RFC 3339) once it was. */
  readonly seed?: { readonly scrub: ScrubState; readonly at: string | null };
}

/** Whether a host's part of a listing is whole, and why not. */
export interface HostView {
  readonly name: string;
  readonly complete: boolean;
  readonly error?: { readonly code: string; readonly detail: string };
}
