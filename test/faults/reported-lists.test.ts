/** Lists and looks at hosts on which something vanishes, is stuck, or belongs to somebody else. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Step } from '../../infra/local/hypervisor/fault-plan.ts';
import { ERROR_CODE } from '../../lib/libvirt/errors.ts';
import type { DomainHandle } from '../../lib/libvirt/objects.ts';
import { ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { domainXml } from '../unit/local/hypervisor/daemon-client.ts';
import { EmbeddedWorld, HOST } from './embedded-world.ts';

const VMS = ['vm-a', 'vm-b', 'vm-c'];

let image: ImageServer;
let world: EmbeddedWorld;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
beforeEach(async () => {
  world = await EmbeddedWorld.start({ image, imagePresent: true });
  for (const name of VMS) {
    await world.fleet.use((provider) => provider.create(world.fleet.request(name, HOST.name)));
  }
  world.daemon.faults.reset();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => image.close());

/** A call that is about this domain. */
const asks =
  (procedure: Step['name'], vm: string) =>
  ({ name, args }: Step): boolean =>
    name === procedure && (Object(args).dom as DomainHandle).name === vm;

/** As a daemon from before libvirt 4.5: it does not know the flag by which the states of all come at once. */
const refuseStatesOfAll = (): void => {
  world.daemon.faults.at('connectGetAllDomainStats', { kind: 'error', code: ERROR_CODE.invalidArg }, 'every');
};

/** What a lister is shown: names, and whether the host was read whole. */
async function list(): Promise<{ readonly names: string[]; readonly complete: boolean | undefined }> {
  const { instances, hosts } = await world.fleet.use((provider) => provider.listByTag());
  return { names: instances.map(({ name }) => name).sort(), complete: hosts[0]?.complete };
}

/** Runs it by a clock that goes on as soon as nothing else happens, and says how many milliseconds it waited. */
async function waiting<T>(act: () => Promise<T>): Promise<{ readonly value: T; readonly waitedMs: number }> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let settled = false;
  const result = act().finally(() => {
    settled = true;
  });
  result.catch(() => undefined);
  let waitedMs = 0;
  while (!settled && waitedMs < 120_000) {
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    if (settled) break;
    await vi.advanceTimersByTimeAsync(100);
    waitedMs += 100;
  }
  return { value: await result, waitedMs };
}

describe('LV-14: a list', () => {
  it.each([
    ['read', 'domainGetXmlDesc', ERROR_CODE.noDomain],
    ['asked for its state', 'domainGetState', ERROR_CODE.noDomain],
    ['read, its metadata being gone', 'domainGetXmlDesc', ERROR_CODE.noDomainMetadata],
    ['read, whatever libvirt says of it', 'domainGetXmlDesc', ERROR_CODE.internalError],
  ] as const)('shows the others when one vanished before it was %s', async (_, procedure, code) => {
    if (procedure === 'domainGetState') refuseStatesOfAll();
    world.daemon.faults.when(asks(procedure, 'vm-b'), { kind: 'error', code });

    expect(await list()).toEqual({ names: ['vm-a', 'vm-c'], complete: true });
  });

  it('passes over a domain that has no metadata, and one that has somebody else’s', async () => {
    const stranger = '<x:owner xmlns:x="urn:example:other">somebody</x:owner>';
    world.daemon.state.domains.define(domainXml({ name: 'plain' }));
    world.daemon.state.domains.define(domainXml({ name: 'foreign', metadata: stranger }));

    expect(await list()).toEqual({ names: VMS, complete: true });
  });

  it('is not whole when the connection is lost at one of them', async () => {
    world.daemon.faults.when(asks('domainGetXmlDesc', 'vm-c'), { kind: 'cut-before' });

    expect(await list()).toEqual({ names: [], complete: false });
  });

  it('lets a collector plan nothing for a host on which the connection was lost', async () => {
    world.daemon.faults.when(asks('domainGetXmlDesc', 'vm-c'), { kind: 'cut-before' });

    const view = await world.fleet.use((provider) => provider.fleetView());

    expect(view.hosts).toMatchObject([{ complete: false, error: { code: 'transient' } }]);
    expect(view.vms).toEqual([]);
  });
});

describe('the calls of a list', () => {
  const count = (procedure: Step['name']) =>
    world.daemon.faults.procedures.filter((name) => name === procedure).length;

  it('are one for the domains, one for the states of all, and one for each domain', async () => {
    expect(await list()).toEqual({ names: VMS, complete: true });

    expect(count('connectListAllDomains')).toBe(1);
    expect(count('connectGetAllDomainStats')).toBe(1);
    expect(count('domainGetXmlDesc')).toBe(VMS.length);
    expect(count('domainGetState')).toBe(0);
  });

  it('ask for the states last: a VM that is started meanwhile must not look stopped', async () => {
    await list();

    const { procedures } = world.daemon.faults;
    expect(procedures.indexOf('connectGetAllDomainStats')).toBeGreaterThan(
      procedures.lastIndexOf('domainGetXmlDesc'),
    );
  });

  it.each([
    ['refuses', refuseStatesOfAll],
    [
      'never answers',
      () => world.daemon.faults.at('connectGetAllDomainStats', { kind: 'no-answer' }, 'every'),
    ],
  ])('ask for each state by itself on a daemon that %s that of all', async (_, prepare) => {
    world.daemon.state.domains.stop(world.daemon.state.domains.byName('vm-b'), 1);
    prepare();

    const { value } = await waiting(() => world.fleet.use((provider) => provider.listByTag()));

    expect(value.instances.map(({ name, state }) => `${name} ${state}`).sort()).toEqual([
      expect.stringMatching(/^vm-a (Running|Provisioning)$/),
      'vm-b Stopped',
      expect.stringMatching(/^vm-c (Running|Provisioning)$/),
    ]);
    expect(count('domainGetState')).toBe(VMS.length);
  });
});

describe('LV-05: one stuck domain', () => {
  it.each(['domainGetXmlDesc', 'domainGetState'] as const)(
    'that does not answer to %s costs a list five seconds and no other VM',
    async (procedure) => {
      if (procedure === 'domainGetState') refuseStatesOfAll();
      world.daemon.faults.when(asks(procedure, 'vm-b'), { kind: 'no-answer' });

      const { value, waitedMs } = await waiting(list);

      expect(value).toEqual({ names: ['vm-a', 'vm-c'], complete: true });
      expect(waitedMs).toBeGreaterThanOrEqual(5_000);
      expect(waitedMs).toBeLessThanOrEqual(5_200);
    },
  );

  it('is told from a host that answers nothing: that one is not whole', async () => {
    world.daemon.faults.at('domainGetXmlDesc', { kind: 'no-answer' }, 'every');

    const { value } = await waiting(() => world.fleet.use((provider) => provider.listByTag()));

    expect(value.hosts).toMatchObject([{ complete: false, error: { code: 'timeout' } }]);
  });

  it('is told from hundreds that do not answer, and they cost no more than one', async () => {
    for (let index = 0; index < 300; index += 1) {
      world.daemon.state.domains.define(domainXml({ name: `plain-${index}` }));
    }
    world.daemon.faults.at('domainGetXmlDesc', { kind: 'no-answer' }, 'every');

    const { value, waitedMs } = await waiting(list);

    expect(value).toEqual({ names: [], complete: false });
    expect(waitedMs).toBeLessThanOrEqual(5_500);
  });

  it('is told from five of them, which occupy all that libvirtd serves one client at once', async () => {
    for (const name of ['vm-d', 'vm-e', 'vm-f']) {
      await world.fleet.use((provider) => provider.create(world.fleet.request(name, HOST.name)));
    }
    const stuck = ['vm-a', 'vm-b', 'vm-c', 'vm-d', 'vm-e'];
    for (const vm of stuck) {
      world.daemon.faults.when(asks('domainGetXmlDesc', vm), { kind: 'no-answer' });
    }

    expect((await waiting(list)).value).toEqual({ names: [], complete: false });
  });

  it('is told from an invocation that has no time left: its list is not whole', async () => {
    world.daemon.faults.when(asks('domainGetXmlDesc', 'vm-b'), { kind: 'no-answer' });
    const { fleet } = world;

    const { value } = await waiting(() =>
      fleet.use((provider) => provider.listByTag(), { deadlineAt: fleet.now() + 2_000 }),
    );

    expect(value.hosts).toMatchObject([{ complete: false, error: { code: 'timeout' } }]);
  });
});

describe('LV-05: a guest agent', () => {
  it('that never answers leaves a get without its address, in time', async () => {
    world.daemon.faults.at('domainInterfaceAddresses', { kind: 'no-answer' }, 'every');

    const { value, waitedMs } = await waiting(() =>
      world.fleet.use((provider) => provider.get(`${HOST.name}/vm-a`)),
    );

    expect(value).toMatchObject({ state: 'Provisioning', ip: null });
    expect(waitedMs).toBeLessThanOrEqual(8_500);
  });

  it('is never asked in a list', async () => {
    await list();

    expect(world.daemon.faults.procedures).not.toContain('domainInterfaceAddresses');
  });

  it.each([
    ['does not know the call (before 5.10)', ERROR_CODE.rpc],
    ['whose driver does not have it', ERROR_CODE.noSupport],
  ])('is not asked by way of a daemon that %s: the address comes from ARP', async (_, code) => {
    const { faults } = world.daemon;
    faults.at('domainAgentSetResponseTimeout', { kind: 'error', code, message: 'unknown procedure: 420' });

    const vm = await world.fleet.use((provider) => provider.get(`${HOST.name}/vm-a`));

    expect(vm).toMatchObject({ state: 'Running', addresses: [{ source: 'arp' }] });
    const sources = faults.log
      .filter(({ name }) => name === 'domainInterfaceAddresses')
      .map(({ args }) => Object(args).source);
    expect(sources).toEqual([2]);
  });

  it('is believed alone by way of a daemon that has no ARP source (before 4.2)', async () => {
    const { faults } = world.daemon;
    faults.at('domainAgentSetResponseTimeout', { kind: 'error', code: ERROR_CODE.rpc });
    const asksArp = ({ name, args }: Step): boolean =>
      name === 'domainInterfaceAddresses' && Object(args).source === 2;
    faults.when(asksArp, { kind: 'error', code: ERROR_CODE.argumentUnsupported });

    const vm = await world.fleet.use((provider) => provider.get(`${HOST.name}/vm-a`));

    expect(vm).toMatchObject({ state: 'Provisioning', ip: null });
  });
});
