import { describe, expect, it } from 'vitest';
import { buildInstance, buildVmRecord } from '../../../lib/kvm/instance-view.ts';
import type { Metadata, PhaseRecord } from '../../../lib/kvm/metadata.ts';
import type { OwnVm } from '../../../lib/kvm/vm.ts';
import { DOMAIN_STATE } from '../../../lib/libvirt/constants.ts';
import type { InstanceAddress } from '../../../lib/provider/instance.ts';

const NOW = Date.parse('2026-01-31T12:00:00.000Z');
const DEADLINE = NOW + 60_000;
const ADDRESS: InstanceAddress = {
  address: '192.0.2.15',
  family: 'ipv4',
  mac: '02:00:00:00:00:01',
  source: 'agent',
};

function vm(metadata: Partial<Metadata> = {}, phase: Partial<PhaseRecord> = {}, runtimeId = 7): OwnVm {
  const identity = {
    ...{
      uuid: 'u',
      fleet: 'demo',
      host: 'kvm-a',
      name: 'vm-1',
      uid: 'uid-1',
      createdAt: NOW - 1000,
      image: 'debian-12',
    },
    ...{
      machineType: 'small',
      diskSizeGb: 10,
      autostart: true,
      baseVolume: 'b',
      seedBytes: 1,
      seedDigest: 'd',
      scrub: false,
    },
    requested: {},
  };
  const record: PhaseRecord = {
    ...{ phase: 'ready', seeded: true, startRefused: false, attempt: 0, deadline: DEADLINE, error: null },
    ...phase,
  };
  return {
    host: 'kvm-a',
    identity,
    handle: { name: 'vm-1', uuid: new Uint8Array(16), id: runtimeId },
    description: {
      name: 'vm-1',
      uuid: 'u',
      macs: ['02:00:00:00:00:01'],
      metadata: {
        ...{ identity, phase: record, startedAt: NOW - 500, expiresAt: null, labels: {}, protected: false },
        ...{ deleting: null, address: null, scrub: null, remakingSince: [] },
        ...metadata,
      },
    },
  };
}

const view = (of: OwnVm, state: number, addresses: readonly InstanceAddress[] | null = null, now = NOW) =>
  buildInstance({ vm: of, state, addresses, progress: null, now });

const recorded = (runtimeId: number) => ({ ...ADDRESS, seenAt: NOW, runtimeId });

describe('the state of an Instance', () => {
  it('is Running only with an address, and then without a reason', () => {
    expect(view(vm(), DOMAIN_STATE.running, [ADDRESS])).toMatchObject({
      state: 'Running',
      reason: null,
      ip: '192.0.2.15',
    });
  });

  it('is Provisioning while an active domain shows no address, and Failed once the deadline passed', () => {
    expect(view(vm(), DOMAIN_STATE.running, [])).toMatchObject({
      state: 'Provisioning',
      ip: null,
      reason:
        "started, waiting for the guest's address since 2026-01-31T11:59:59.500Z, until 2026-01-31T12:01:00.000Z",
    });
    expect(view(vm(), DOMAIN_STATE.running, [], DEADLINE)).toMatchObject({ state: 'Failed', phase: 'ready' });
  });

  it('recovers from Failed when an address appears', () => {
    const failed = vm({}, { phase: 'failed', error: 'no' });

    expect(view(failed, DOMAIN_STATE.running, [], DEADLINE)).toMatchObject({ state: 'Failed', reason: 'no' });
    expect(view(failed, DOMAIN_STATE.running, [ADDRESS], DEADLINE).state).toBe('Running');
  });

  it('takes a recorded address only from the same run of the domain', () => {
    expect(view(vm({ address: recorded(7) }), DOMAIN_STATE.running).state).toBe('Running');
    expect(view(vm({ address: recorded(6) }), DOMAIN_STATE.running)).toMatchObject({
      state: 'Provisioning',
      ip: null,
    });
  });

  it('does not fail a VM whose host was restarted for that nobody has looked since, and does when a look finds none', () => {
    const restarted = vm({ address: recorded(6) });

    const listed = view(restarted, DOMAIN_STATE.running, null, DEADLINE + 1);
    const looked = view(restarted, DOMAIN_STATE.running, [], DEADLINE + 1);

    expect(listed).toMatchObject({ state: 'Provisioning', ip: null });
    expect(listed.reason).toContain('a get looks for it');
    expect(looked).toMatchObject({ state: 'Failed', ip: null });
    expect(looked.reason).toContain('shows none now');
  });

  it('is Provisioning when libvirt cannot tell', () => {
    expect(view(vm({}, {}, -1), DOMAIN_STATE.nostate).state).toBe('Provisioning');
  });

  it.each([
    [DOMAIN_STATE.paused, 'paused'],
    [DOMAIN_STATE.shutdown, 'shutting down'],
    [DOMAIN_STATE.shutoff, 'shut off'],
    [DOMAIN_STATE.crashed, 'crashed'],
    [DOMAIN_STATE.pmsuspended, 'suspended'],
  ])('is Stopped, with the reason, in libvirt state %i', (state, word) => {
    const stopped = view(vm({ address: recorded(7) }), state);

    expect(stopped).toMatchObject({ state: 'Stopped', ip: null, addresses: [] });
    expect(stopped.reason).toContain(word);
  });

  it.each(['reserved', 'seeded', 'importing-image', 'starting'] as const)(
    'is Provisioning in phase %s until the deadline and Failed after it',
    (phase) => {
      expect(view(vm({}, { phase }, -1), DOMAIN_STATE.shutoff)).toMatchObject({
        state: 'Provisioning',
        phase,
      });
      expect(view(vm({}, { phase }, -1), DOMAIN_STATE.shutoff, null, DEADLINE)).toMatchObject({
        state: 'Failed',
        phase,
      });
    },
  );

  it('is Deleting once the mark stands, whatever the phase and the address', () => {
    const deleting = { since: NOW, reason: 'asked for', graceUntil: null };

    expect(view(vm({ deleting }), DOMAIN_STATE.running, [ADDRESS])).toMatchObject({
      state: 'Deleting',
      phase: 'deleting',
    });
  });

  it('tells how far the import of the image has come', () => {
    const importing = vm({}, { phase: 'importing-image' }, -1);

    const instance = buildInstance({
      ...{ vm: importing, state: DOMAIN_STATE.shutoff, addresses: null, now: NOW },
      progress: { doneBytes: 42_991_616, totalBytes: 346_030_080 },
    });

    expect(instance.reason).toBe('image debian-12: 41 of 330 MiB, until 2026-01-31T12:01:00.000Z');
    expect(instance.progress).toEqual({ doneBytes: 42_991_616, totalBytes: 346_030_080 });
  });
});

describe('the record the collector decides on', () => {
  it('says a VM was started at any single sign of it', () => {
    const never = { startedAt: null };
    const phase = { phase: 'seeded' } as const;

    expect(buildVmRecord(vm(never, phase, -1)).started).toBe(false);
    expect(buildVmRecord(vm(never, phase, 7)).started).toBe(true);
    expect(buildVmRecord(vm({ startedAt: 1 }, phase, -1)).started).toBe(true);
    expect(buildVmRecord(vm({ ...never, address: recorded(6) }, phase, -1)).started).toBe(true);
    expect(buildVmRecord(vm(never, { phase: 'ready' }, -1)).started).toBe(true);
  });

  it('does not count a start that libvirt refused', () => {
    expect(buildVmRecord(vm({ startedAt: 1 }, { phase: 'starting', startRefused: true }, -1)).started).toBe(
      false,
    );
  });
});

describe('the seed of an Instance', () => {
  const scrubbing = (scrub: Metadata['scrub']): OwnVm => {
    const made = vm({ scrub });
    return { ...made, identity: { ...made.identity, scrub: true } };
  };
  const seedOf = (of: OwnVm, now = NOW) => view(of, DOMAIN_STATE.running, [ADDRESS], now).seed;

  it('is pending until it is recorded as done, and overdue after the deadline', () => {
    expect(seedOf(vm())).toBeUndefined();
    expect(seedOf(scrubbing(null))).toEqual({ scrub: 'pending', at: null });
    expect(seedOf(scrubbing({ since: NOW, doneAt: null }))).toEqual({ scrub: 'pending', at: null });
    expect(seedOf(scrubbing({ since: NOW, doneAt: null }), DEADLINE)).toEqual({ scrub: 'overdue', at: null });
    expect(seedOf(scrubbing({ since: NOW - 1, doneAt: NOW }), DEADLINE)).toEqual({
      scrub: 'done',
      at: '2026-01-31T12:00:00.000Z',
    });
  });
});
