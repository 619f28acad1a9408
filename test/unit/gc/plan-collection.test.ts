import { describe, expect, it } from 'vitest';
import { type CollectionPolicy, judgeVm, planCollection } from '../../../lib/gc/plan-collection.ts';
import type { FleetView, OrphanVolume, VmRecord } from '../../../lib/provider/collection.ts';

const NOW = 1_769_860_800_000;
const POLICY: CollectionPolicy = { graceSeconds: 3600, deleteSeconds: 600, maxDeletes: 10, maxPercent: 20 };

const vm = (more: Partial<VmRecord> = {}): VmRecord => ({
  ...{
    id: 'kvm-a/vm-1',
    host: 'kvm-a',
    name: 'vm-1',
    uid: 'uid-1',
    uuid: 'uuid-1',
    createdAt: NOW - 86_400_000,
  },
  ...{ ready: true, started: true, deadline: NOW - 80_000_000, expiresAt: null, protected: false },
  ...{ deletingSince: null, graceUntil: null },
  ...more,
});
const unfinished = (deadline: number): Partial<VmRecord> => ({ ready: false, started: false, deadline });
const orphan = (volume: string, modifiedAt: number | null): OrphanVolume => ({
  host: 'kvm-a',
  volume,
  modifiedAt,
});
const fleet = (more: Partial<FleetView> = {}): FleetView => ({
  hosts: [{ name: 'kvm-a', complete: true }],
  vms: [],
  orphanVolumes: [],
  ...more,
});
const judge = (more: Partial<VmRecord>) => judgeVm(vm(more), POLICY, NOW)?.reason ?? 'kept';

describe('judgeVm', () => {
  it('keeps a VM without a lease for ever', () => {
    expect(judge({})).toBe('kept');
  });

  it('takes a lease at its very end, and not before', () => {
    expect(judge({ expiresAt: NOW + 1 })).toBe('kept');
    expect(judge({ expiresAt: NOW })).toBe('lease-expired');
  });

  it('takes a create that never started once deadline and grace have passed', () => {
    expect(judge(unfinished(NOW - 3_600_000 + 1))).toBe('kept');
    expect(judge(unfinished(NOW - 3_600_000))).toBe('create-unfinished');
  });

  it('LM-11: keeps what may have run, whatever its phase says', () => {
    expect(judge({ ...unfinished(0), started: true })).toBe('kept');
    expect(judge({ ...unfinished(0), ready: true })).toBe('kept');
  });

  it('LM-11: keeps a VM whose age cannot be read or lies in the future', () => {
    expect(judge({ ...unfinished(0), createdAt: null })).toBe('kept');
    expect(judge({ ...unfinished(0), createdAt: NOW + 1 })).toBe('kept');
    expect(judge({ expiresAt: 1, createdAt: NOW + 1 })).toBe('kept');
    expect(judge({ ...unfinished(0), deadline: null })).toBe('kept');
  });

  it('finishes a delete once its own time and the grace of the guest have passed', () => {
    expect(judge({ deletingSince: NOW - 600_000 + 1 })).toBe('kept');
    expect(judge({ deletingSince: NOW - 600_000 })).toBe('delete-unfinished');
    expect(judge({ deletingSince: NOW - 900_000, graceUntil: NOW - 1 })).toBe('kept');
  });

  it('keeps a protected VM on every path', () => {
    expect(judge({ protected: true, expiresAt: 1 })).toBe('kept');
    expect(judge({ protected: true, deletingSince: 1 })).toBe('kept');
    expect(judge({ protected: true, ...unfinished(0) })).toBe('kept');
  });
});

describe('planCollection', () => {
  it('takes volumes without a domain after the grace, and keeps those whose age cannot be read', () => {
    const orphanVolumes = [
      orphan('a.disk', NOW - 3_600_000),
      orphan('b.disk', NOW - 3_599_999),
      orphan('c.disk', null),
    ];

    const { items } = planCollection(fleet({ orphanVolumes }), POLICY, NOW);

    expect(items).toMatchObject([
      { kind: 'volume', reason: 'volume-without-domain', volume: { volume: 'a.disk' } },
    ]);
  });

  it('LM-11: refuses everything on a partial view', () => {
    const hosts = [
      { name: 'kvm-a', complete: true },
      { name: 'kvm-b', complete: false, error: { code: 'transient', detail: 'away' } },
    ];

    const plan = planCollection(fleet({ hosts, vms: [vm({ expiresAt: 1 })] }), POLICY, NOW);

    expect(plan.items).toHaveLength(1);
    expect(plan.refusedAll).toContain('kvm-b');
  });

  it('brakes what nobody asked for by number, and does not count what was asked for', () => {
    const asked = Array.from({ length: 50 }, (_, n) => vm({ uuid: `asked-${n}`, expiresAt: 1 }));
    const unasked = (count: number) =>
      Array.from({ length: count }, (_, n) => vm({ uuid: `un-${n}`, ...unfinished(0) }));

    expect(planCollection(fleet({ vms: [...asked, ...unasked(10)] }), POLICY, NOW).refusedUnasked).toBeNull();
    expect(planCollection(fleet({ vms: [...asked, ...unasked(11)] }), POLICY, NOW).refusedUnasked).toContain(
      'maxDeletes',
    );
  });

  it('brakes by share of the fleet, but never below one', () => {
    const three = [vm({ uuid: '1', ...unfinished(0) }), vm({ uuid: '2' }), vm({ uuid: '3' })];
    const two = [...three.slice(0, 1), vm({ uuid: '4', ...unfinished(0) }), vm({ uuid: '5' })];

    expect(planCollection(fleet({ vms: three }), POLICY, NOW).refusedUnasked).toBeNull();
    expect(planCollection(fleet({ vms: two }), POLICY, NOW).refusedUnasked).toContain('maxPercent');
  });

  it('counts both volumes of a lost VM once', () => {
    const orphanVolumes = [orphan('kvmfn_a_b_c_00.disk', 0), orphan('kvmfn_a_b_c_00.seed', 0)];

    const plan = planCollection(fleet({ orphanVolumes }), { ...POLICY, maxDeletes: 1 }, NOW);

    expect(plan.refusedUnasked).toBeNull();
    expect(plan.items).toHaveLength(2);
  });

  it('refuses all deletes that nobody asked for with maxDeletes 0', () => {
    const plan = planCollection(fleet({ vms: [vm(unfinished(0))] }), { ...POLICY, maxDeletes: 0 }, NOW);

    expect(plan.refusedUnasked).toContain('maxDeletes');
  });
});
