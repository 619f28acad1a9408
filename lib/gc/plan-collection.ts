/**
 * What to collect: a pure decision from a view of the fleet, so that it can be read, tested and argued about without a
 * hypervisor. The safe side of every doubt is to keep: an age that cannot be read, a time in the future, a VM that may
 * have run, a host that was not seen whole.
 */
import type { FleetView, OrphanVolume, VmRecord } from '../provider/collection.ts';

/** `lease-expired` and `delete-unfinished` were asked for by somebody; nobody asked for the other two. */
export const COLLECT_REASONS = {
  'lease-expired': { asked: true },
  'delete-unfinished': { asked: true },
  'create-unfinished': { asked: false },
  'volume-without-domain': { asked: false },
} as const;
export type CollectReason = keyof typeof COLLECT_REASONS;

export interface CollectionPolicy {
  /** How long what nobody asked for is left alone after it became due. */
  readonly graceSeconds: number;
  /** How long a delete may take before the collector finishes it. */
  readonly deleteSeconds: number;
  /** Brakes on what nobody asked for, per sweep. */
  readonly maxDeletes: number;
  /** Percent of the fleet's VMs, rounded up, and never below one: a fleet of three must be able to lose its debris. */
  readonly maxPercent: number;
}

export type PlannedItem = {
  readonly reason: CollectReason /** Milliseconds since the epoch. */;
  readonly since: number;
} & (
  | { readonly kind: 'vm'; readonly vm: VmRecord }
  | { readonly kind: 'volume'; readonly volume: OrphanVolume }
);

export interface CollectionPlan {
  readonly items: readonly PlannedItem[];
  /** Why nothing of it may be done at all; null when the view is whole. */
  readonly refusedAll: string | null;
  /** Why what nobody asked for may not be done; null within the brakes. */
  readonly refusedUnasked: string | null;
}

/** Pure. */
export function planCollection(view: FleetView, policy: CollectionPolicy, now: number): CollectionPlan {
  const items: PlannedItem[] = [];
  for (const vm of view.vms) {
    const due = judgeVm(vm, policy, now);
    if (due !== null) items.push({ kind: 'vm', vm, ...due });
  }
  for (const volume of view.orphanVolumes) {
    const { modifiedAt } = volume;
    if (modifiedAt !== null && modifiedAt + policy.graceSeconds * 1000 <= now) {
      items.push({ kind: 'volume', volume, reason: 'volume-without-domain', since: modifiedAt });
    }
  }
  return { items, refusedAll: judgeView(view), refusedUnasked: judgeBrakes(items, view, policy) };
}

/** Why this VM is due, or null. Asked again of the fresh record just before the VM is deleted. Pure. */
export function judgeVm(
  vm: VmRecord,
  policy: Pick<CollectionPolicy, 'graceSeconds' | 'deleteSeconds'>,
  now: number,
): { readonly reason: CollectReason; readonly since: number } | null {
  if (vm.protected) return null;
  if (vm.deletingSince !== null) {
    const since = Math.max(vm.deletingSince, vm.graceUntil ?? 0);
    return since + policy.deleteSeconds * 1000 <= now ? { reason: 'delete-unfinished', since } : null;
  }
  // A VM from the future was made by somebody whose clock, or ours, is wrong: none of its times can be compared.
  if (vm.createdAt === null || vm.createdAt > now) return null;
  if (vm.expiresAt !== null && vm.expiresAt <= now) return { reason: 'lease-expired', since: vm.expiresAt };
  if (vm.started || vm.ready || vm.deadline === null) return null;
  return vm.deadline + policy.graceSeconds * 1000 <= now
    ? { reason: 'create-unfinished', since: vm.deadline }
    : null;
}

function judgeView(view: FleetView): string | null {
  const unseen = view.hosts.filter(({ complete }) => !complete).map(({ name }) => name);
  return unseen.length === 0
    ? null
    : `a partial view deletes nothing: ${unseen.join(', ')} could not be read`;
}

function judgeBrakes(
  items: readonly PlannedItem[],
  view: FleetView,
  policy: CollectionPolicy,
): string | null {
  const unasked = new Set(items.filter(({ reason }) => !COLLECT_REASONS[reason].asked).map(incarnationOf));
  const byPercent = Math.max(1, Math.ceil((view.vms.length * policy.maxPercent) / 100));
  if (unasked.size > policy.maxDeletes) {
    return `${unasked.size} deletes that nobody asked for, gc.maxDeletes allows ${policy.maxDeletes}`;
  }
  if (unasked.size > byPercent) {
    return `${unasked.size} deletes that nobody asked for, gc.maxPercent allows ${byPercent} of ${view.vms.length} VMs`;
  }
  return null;
}

/** Both volumes of one lost VM count once. */
function incarnationOf(item: PlannedItem): string {
  return item.kind === 'vm' ? item.vm.uuid : item.volume.volume.replace(/\.[a-z]+$/, '');
}
