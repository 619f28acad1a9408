import { describe, expect, it } from 'vitest';
import { collect } from '../../../lib/gc/collect.ts';
import type { CollectionPolicy } from '../../../lib/gc/plan-collection.ts';
import type { Collector, FleetView, VmRecord } from '../../../lib/provider/collection.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';

const NOW = 1_769_860_800_000;
const POLICY: CollectionPolicy = { graceSeconds: 3600, deleteSeconds: 600, maxDeletes: 1, maxPercent: 100 };

const record = (name: string, more: Partial<VmRecord>): VmRecord => ({
  ...{
    id: `kvm-a/${name}`,
    host: 'kvm-a',
    name,
    uid: `uid-${name}`,
    uuid: `uuid-${name}`,
    createdAt: 1,
    ready: true,
  },
  ...{ started: true, deadline: 1, expiresAt: null, protected: false, deletingSince: null, graceUntil: null },
  ...more,
});

/** Re-reads a record as the provider does: from `fresh` when it changed since the view. */
function collector(view: Partial<FleetView>, fresh: Record<string, VmRecord> = {}) {
  const deleted: string[] = [];
  const fake: Collector = {
    fleetView: async () => ({
      hosts: [{ name: 'kvm-a', complete: true }],
      vms: [],
      orphanVolumes: [],
      ...view,
    }),
    collectVm: async (vm, stillDue) => {
      if (vm.name === 'stuck') throw new ProviderError('transient', 'QEMU does not end');
      if (!stillDue(fresh[vm.name] ?? vm)) return 'kept';
      deleted.push(vm.name);
      return 'deleted';
    },
    collectVolume: async ({ volume }) => {
      deleted.push(volume);
      return 'deleted';
    },
  };
  return { fake, deleted };
}

const sweep = (fake: Collector, mode: 'report' | 'delete') => collect(fake, POLICY, mode, () => NOW);

describe('collect', () => {
  it('reports a plan and does nothing in mode report', async () => {
    const { fake, deleted } = collector({ vms: [record('a', { expiresAt: NOW - 5 })] });

    const result = await sweep(fake, 'report');

    expect(result).toEqual({
      mode: 'report',
      hosts: [{ name: 'kvm-a', complete: true }],
      plan: [
        {
          ...{ id: 'kvm-a/a', uid: 'uid-a', reason: 'lease-expired', action: 'delete' },
          since: new Date(NOW - 5).toISOString(),
        },
      ],
      done: [],
    });
    expect(deleted).toEqual([]);
  });

  it('LM-11: keeps a VM that is no longer due when it is looked at again', async () => {
    const vms = [record('renewed', { expiresAt: 5 })];
    const { fake, deleted } = collector({ vms }, { renewed: record('renewed', { expiresAt: NOW + 5 }) });

    const { done } = await sweep(fake, 'delete');

    expect(done).toEqual([{ id: 'kvm-a/renewed', uid: 'uid-renewed', outcome: 'kept' }]);
    expect(deleted).toEqual([]);
  });

  it('keeps a VM that became due for another reason: the plan that was checked did not say so', async () => {
    const { fake } = collector(
      { vms: [record('a', { expiresAt: 5 })] },
      { a: record('a', { ready: false, started: false }) },
    );

    expect((await sweep(fake, 'delete')).done).toMatchObject([{ outcome: 'kept' }]);
  });

  it('goes on past a VM that cannot be deleted and says why', async () => {
    const { fake, deleted } = collector({
      vms: [record('stuck', { expiresAt: 5 }), record('b', { expiresAt: 5 })],
    });

    const { done } = await sweep(fake, 'delete');

    expect(done[0]).toMatchObject({
      outcome: 'failed',
      error: { code: 'transient', detail: 'QEMU does not end' },
    });
    expect(deleted).toEqual(['b']);
  });

  it('does what was asked for and refuses the rest past the brakes', async () => {
    const lost = (n: number) => ({ host: 'kvm-a', volume: `kvmfn_f_h_n${n}_00.disk`, modifiedAt: 0 });
    const { fake, deleted } = collector({
      vms: [record('a', { expiresAt: 5 })],
      orphanVolumes: [lost(1), lost(2)],
    });

    const result = await sweep(fake, 'delete');

    expect(deleted).toEqual(['a']);
    expect(result.plan).toHaveLength(3);
    expect(result.refused).toContain('maxDeletes');
  });

  it('deletes nothing at all on a partial view', async () => {
    const hosts = [{ name: 'kvm-b', complete: false, error: { code: 'transient', detail: 'away' } }];
    const { fake, deleted } = collector({ hosts, vms: [record('a', { expiresAt: 5 })] });

    const result = await sweep(fake, 'delete');

    expect(deleted).toEqual([]);
    expect(result.refused).toContain('kvm-b');
  });
});
