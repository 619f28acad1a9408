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
}

/** Whether a host's part of a listing is whole, and why not. */
export interface HostView {
  readonly name: string;
  readonly complete: boolean;
  readonly error?: { readonly code: string; readonly detail: string };
}
