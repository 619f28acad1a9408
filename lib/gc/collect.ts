/** One sweep: view, plan, and in mode `delete` the single deletes, each of which looks again before it acts. */
import type { Collector } from '../provider/collection.ts';
import type { HostView } from '../provider/instance.ts';
import { ProviderError } from '../provider/provider-error.ts';
import {
  COLLECT_REASONS,
  type CollectionPolicy,
  type CollectReason,
  judgeVm,
  type PlannedItem,
  planCollection,
} from './plan-collection.ts';

export const GC_MODES = ['report', 'delete'] as const;
export type GcMode = (typeof GC_MODES)[number];

type GcTarget =
  | { readonly id: string; readonly uid: string }
  | { readonly host: string; readonly volume: string };

export type GcPlanEntry = GcTarget & {
  readonly reason: CollectReason;
  /** RFC 3339: when it became due, not when it was found. */
  readonly since: string;
  readonly action: 'delete';
};

/** `gone`: somebody else was faster; `kept`: it changed and is no longer due; `failed`: the next sweep tries again. */
export type GcDoneEntry = GcTarget & {
  readonly outcome: 'deleted' | 'gone' | 'kept' | 'failed';
  readonly error?: { readonly code: string; readonly detail: string };
};

export interface GcResult {
  readonly mode: GcMode;
  readonly hosts: readonly HostView[];
  readonly plan: readonly GcPlanEntry[];
  readonly done: readonly GcDoneEntry[];
  readonly refused?: string;
}

/** Two sweeps at once are harmless: each delete is idempotent and goes by UUID. Never throws for a single VM's sake. */
export async function collect(
  collector: Collector,
  policy: CollectionPolicy,
  mode: GcMode,
  now: () => number,
): Promise<GcResult> {
  const view = await collector.fleetView();
  const plan = planCollection(view, policy, now());
  const refused = plan.refusedAll ?? plan.refusedUnasked;
  const allowed = plan.items.filter(
    ({ reason }) =>
      plan.refusedAll === null && (plan.refusedUnasked === null || COLLECT_REASONS[reason].asked),
  );
  const done: GcDoneEntry[] = [];
  if (mode === 'delete') for (const item of allowed) done.push(await carryOut(collector, policy, item, now));
  return {
    mode,
    hosts: view.hosts,
    plan: plan.items.map((item) => ({
      ...targetOf(item),
      reason: item.reason,
      since: new Date(item.since).toISOString(),
      action: 'delete',
    })),
    done,
    ...(refused === null ? {} : { refused }),
  };
}

async function carryOut(
  collector: Collector,
  policy: CollectionPolicy,
  item: PlannedItem,
  now: () => number,
): Promise<GcDoneEntry> {
  const target = targetOf(item);
  try {
    const outcome =
      item.kind === 'vm'
        ? await collector.collectVm(
            item.vm,
            (fresh) => judgeVm(fresh, policy, now())?.reason === item.reason,
            `collected: ${item.reason}`,
          )
        : await collector.collectVolume(item.volume);
    return { ...target, outcome };
  } catch (error) {
    const { kind, message } =
      error instanceof ProviderError
        ? error
        : new ProviderError('internal', 'an unforeseen error', { cause: error });
    return { ...target, outcome: 'failed', error: { code: kind, detail: message } };
  }
}

function targetOf(item: PlannedItem): GcTarget {
  return item.kind === 'vm'
    ? { id: item.vm.id, uid: item.vm.uid }
    : { host: item.volume.host, volume: item.volume.volume };
}
