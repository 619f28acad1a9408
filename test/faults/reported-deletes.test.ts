/** Deletes that went wrong elsewhere: what libvirt answers in the middle of one, and what must still stand afterwards. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Step } from '../../infra/local/hypervisor/fault-plan.ts';
import { collect } from '../../lib/gc/collect.ts';
import {
  DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
  DOMAIN_UNDEFINE_MANAGED_SAVE,
  DOMAIN_UNDEFINE_NVRAM,
  DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
  DOMAIN_UNDEFINE_TPM,
} from '../../lib/libvirt/constants.ts';
import { ERROR_CODE } from '../../lib/libvirt/errors.ts';
import { HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { EmbeddedWorld, FLEET, HOST } from './embedded-world.ts';

const ID = `${HOST.name}/vm-1`;
const NOTHING = { running: [], broken: [], leftovers: [] };
const BASE = DOMAIN_UNDEFINE_MANAGED_SAVE | DOMAIN_UNDEFINE_SNAPSHOTS_METADATA | DOMAIN_UNDEFINE_NVRAM;
const WITH_CHECKPOINTS = BASE | DOMAIN_UNDEFINE_CHECKPOINTS_METADATA;
const ALL = WITH_CHECKPOINTS | DOMAIN_UNDEFINE_TPM;

let image: ImageServer;
let world: EmbeddedWorld;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
beforeEach(async () => {
  world = await EmbeddedWorld.start({ image, imagePresent: true });
  await world.fleet.use((provider) => provider.create(world.fleet.request('vm-1', HOST.name)));
  world.daemon.faults.reset();
});
afterAll(() => image.close());

const erase = () => world.fleet.use((provider) => provider.delete(ID));

const undefineFlags = ({ name, args }: Step): number | null =>
  name === 'domainUndefineFlags' ? Number(Object(args).flags) : null;

/** The flags of each undefine, in the order in which they were tried. */
const triedFlags = (): (number | null)[] =>
  world.daemon.faults.log.map(undefineFlags).filter((flags) => flags !== null);

async function hostHas(): Promise<{ readonly domains: string[]; readonly volumes: string[] }> {
  const probe = await HostProbe.open(world.fleet.options.dial, HOST);
  try {
    return { domains: await probe.domainNames(), volumes: await probe.vmVolumes(FLEET, 'vm-1') };
  } finally {
    await probe.close();
  }
}

describe('LV-08: an undefine', () => {
  /** A daemon that knows the flags of its time and answers 8 to any other. */
  const knowsOnly = (known: number): void => {
    world.daemon.faults.when((step) => ((undefineFlags(step) ?? 0) & ~known) !== 0, {
      kind: 'error',
      code: ERROR_CODE.invalidArg,
      message: 'unsupported flags in function qemuDomainUndefineFlags',
    });
  };
  /** A domain that cannot go without this flag. */
  const needs = (flag: number): void => {
    world.daemon.faults.when((step) => ((undefineFlags(step) ?? flag) & flag) === 0, {
      kind: 'error',
      code: ERROR_CODE.operationInvalid,
      message: 'Requested operation is not valid: cannot delete inactive domain with 1 checkpoints',
    });
  };

  it.each([
    ['managed save', DOMAIN_UNDEFINE_MANAGED_SAVE],
    ['snapshots', DOMAIN_UNDEFINE_SNAPSHOTS_METADATA],
    ['nvram', DOMAIN_UNDEFINE_NVRAM],
    ['checkpoints', DOMAIN_UNDEFINE_CHECKPOINTS_METADATA],
    ['a TPM', DOMAIN_UNDEFINE_TPM],
  ])('takes %s along that would keep the domain', async (_, flag) => {
    needs(flag);

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(triedFlags()).toEqual([ALL]);
    expect(await world.inspect()).toEqual(NOTHING);
  });

  it.each([
    ['before 8.9, which knows no TPM', WITH_CHECKPOINTS, [ALL, WITH_CHECKPOINTS]],
    ['before 5.6, which knows no checkpoints', BASE, [ALL, WITH_CHECKPOINTS, BASE]],
  ])('falls back on a daemon from %s', async (_, known, tried) => {
    knowsOnly(known);

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(triedFlags()).toEqual(tried);
    expect(await world.inspect()).toEqual(NOTHING);
  });

  it('drops no flag that the daemon knows: checkpoints go where a TPM is not known', async () => {
    knowsOnly(WITH_CHECKPOINTS);
    needs(DOMAIN_UNDEFINE_CHECKPOINTS_METADATA);

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(await world.inspect()).toEqual(NOTHING);
  });

  it('tells of the refusal when no flags help', async () => {
    knowsOnly(0);

    await expect(erase()).rejects.toMatchObject({ kind: 'permanent', cause: { code: 8 } });

    expect((await hostHas()).domains).toEqual(['vm-1']);
  });
});

describe('LV-09: a delete', () => {
  it('succeeds for a domain that is gone after its destroy, as a transient one is', async () => {
    const { faults, state } = world.daemon;
    const forget = (): void => {
      const domain = state.domains.byName('vm-1');
      if (domain.config !== undefined) state.domains.undefine(domain);
    };
    // Between the last destroy and the undefine: the undefine itself is answered 42.
    faults.at('domainUndefineFlags', { kind: 'hook', hook: forget });

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(await world.inspect()).toEqual(NOTHING);
  });

  it('succeeds for a domain that is off already: the destroy is answered 55', async () => {
    const probe = await HostProbe.open(world.fleet.options.dial, HOST);
    const dom = await probe.domain('vm-1');
    await probe.connection.call('domainDestroy', { dom });
    await expect(probe.connection.call('domainDestroy', { dom })).rejects.toMatchObject({ code: 55 });
    await probe.close();

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(await world.inspect()).toEqual(NOTHING);
  });

  it.each([
    ['destroyed', 'domainDestroy'],
    ['marked', 'domainSetMetadata'],
    ['taken off autostart', 'domainSetAutostart'],
  ] as const)('succeeds for a domain that vanishes just before it is %s', async (_, procedure) => {
    const { faults, state } = world.daemon;
    const vanish = (): void => {
      const domain = state.domains.find('vm-1');
      if (domain === undefined) return;
      state.domains.stop(domain, 2);
      state.domains.undefine(domain);
    };
    faults.at(procedure, { kind: 'hook', hook: vanish });

    await expect(erase()).resolves.toEqual({ gone: true });

    expect(await world.inspect()).toEqual(NOTHING);
  });
});

describe('LV-10: a destroy that fails because QEMU does not end', () => {
  const EBUSY = 16;
  const refuseDestroy = (code: number): void => {
    const error = {
      kind: 'error',
      code,
      int1: EBUSY,
      message: 'Failed to terminate process 77 with SIGKILL',
    };
    world.daemon.faults.at('domainDestroy', { ...error, kind: 'error' }, 'every');
  };

  it.each([
    ['a system error', ERROR_CODE.systemError],
    ['a timeout', ERROR_CODE.operationTimeout],
  ])('with %s deletes no volume and is to be retried', async (_, code) => {
    const before = await hostHas();
    refuseDestroy(code);

    const refused = erase();

    await expect(refused).rejects.toMatchObject({ kind: 'transient', retryable: true, cause: { code } });
    expect(world.daemon.faults.procedures).not.toContain('storageVolDelete');
    expect(before.volumes).toHaveLength(2);
    expect(await hostHas()).toEqual(before);
    world.daemon.faults.clear();
    await expect(erase()).resolves.toEqual({ gone: true });
    expect(await world.inspect()).toEqual(NOTHING);
  });

  it('is the same for the worker and for the collector', async () => {
    const { fleet, daemon } = world;
    const before = await hostHas();
    refuseDestroy(ERROR_CODE.systemError);
    await expect(erase()).rejects.toMatchObject({ kind: 'transient' });
    const message = fleet.queue.find(({ message: { op } }) => op === 'delete')?.message;

    const continued = fleet.use((worker) => worker.continueWork(message ?? expect.fail('no message')));
    await expect(continued).rejects.toMatchObject({ kind: 'transient' });
    fleet.advance(7_200);
    const policy = { graceSeconds: 60, deleteSeconds: 60, maxDeletes: 10, maxPercent: 100 };
    const collected = await fleet.use((provider) => collect(provider, policy, 'delete', fleet.now));

    expect(collected.done).toMatchObject([{ id: ID, outcome: 'failed' }]);
    expect(daemon.faults.procedures).not.toContain('storageVolDelete');
    expect(await hostHas()).toEqual(before);
  });
});
