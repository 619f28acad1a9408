/**
 * What the collector sees and may do. The decision (lib/gc) is pure on a FleetView; the provider reads the view and
 * carries out single actions, each of which looks again at the very domain before it touches it.
 */
import type { HostView } from './instance.ts';

/** One VM of this fleet as its own metadata tells it. Times are milliseconds since the epoch. */
export interface VmRecord {
  readonly id: string;
  readonly host: string;
  readonly name: string;
  readonly uid: string;
  readonly uuid: string;
  readonly createdAt: number | null;
  /** True once the phase says `ready`. */
  readonly ready: boolean;
  /** True once a start was ever issued: such a VM is never collected for a create that did not end. */
  readonly started: boolean;
  /** When the create must have ended; null when the phase record cannot be read. */
  readonly deadline: number | null;
  readonly expiresAt: number | null;
  readonly protected: boolean;
  readonly deletingSince: number | null;
  /** When the guest's grace period to shut down ends; null without one. */
  readonly graceUntil: number | null;
}

/** A volume whose name says it belongs to a VM of this fleet and host, with no domain of that UUID. */
export interface OrphanVolume {
  readonly host: string;
  readonly volume: string;
  /** Milliseconds since the epoch by the host's clock; null when unreadable, and then it is kept. */
  readonly modifiedAt: number | null;
}

export interface FleetView {
  readonly hosts: readonly HostView[];
  readonly vms: readonly VmRecord[];
  readonly orphanVolumes: readonly OrphanVolume[];
}

export type CollectOutcome = 'deleted' | 'gone' | 'kept';

export interface Collector {
  /** Volumes are listed before domains: a VM created in between must not look like a leftover. */
  fleetView(): Promise<FleetView>;
  /**
   * Deletes the VM of this UUID if `stillDue` says so of its record read just before. `gone`: it was no longer there;
   * `kept`: it changed and is no longer due.
   */
  collectVm(vm: VmRecord, stillDue: (fresh: VmRecord) => boolean, reason: string): Promise<CollectOutcome>;
  /** Deletes the volume if still no domain of its UUID exists. */
  collectVolume(volume: OrphanVolume): Promise<CollectOutcome>;
}
