/**
 * User-data is taken off the seed of a running VM: whatever is cut, whoever comes twice or late, the volume ends as the one
 * that was made with nothing but the bytes of user-data replaced, and the VM runs on.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Step } from '../../infra/local/hypervisor/fault-plan.ts';
import { parseDomainXml } from '../../lib/kvm/domain-xml.ts';
import { METADATA } from '../../lib/kvm/metadata.ts';
import { volumeName } from '../../lib/kvm/volume-names.ts';
import { DOMAIN_AFFECT_CONFIG, DOMAIN_METADATA_ELEMENT } from '../../lib/libvirt/constants.ts';
import type { CreateRequest } from '../../lib/provider/provider.ts';
import { HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { EmbeddedWorld, HOST } from './embedded-world.ts';

const ID = `${HOST.name}/vm-1`;
const SECRET = 'hunter2-correct-horse';
const HOUR = 3600;
const BLANK = '#cloud-config\n{}\n';

let image: ImageServer;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
afterAll(() => image.close());

const requestOf = (world: EmbeddedWorld): CreateRequest =>
  world.fleet.request('vm-1', HOST.name, {
    uid: 'u-1',
    cloudInit: Buffer.from(`#cloud-config\nruncmd: [[echo, ${SECRET}]]\n`),
    seed: { scrub: true },
  });

const create = (world: EmbeddedWorld) => world.fleet.use((provider) => provider.create(requestOf(world)));

interface Found {
  readonly seed: Buffer;
  readonly scrub: { readonly since: number; readonly doneAt: number | null } | null;
  readonly runtimeId: number;
  readonly boots: number;
}

async function look(world: EmbeddedWorld): Promise<Found> {
  const probe = await HostProbe.open(world.fleet.options.dial, HOST);
  try {
    const { metadata } = parseDomainXml(await probe.domainXml('vm-1'));
    if (metadata.identity === null) throw new Error('vm-1 has no identity');
    const seed = await probe.volumeBytes(volumeName(metadata.identity, 'seed'));
    const { uuid } = metadata.identity;
    const boots = world.daemon.state.boots.filter((boot) => boot.uuid === uuid).length;
    return { seed, scrub: metadata.scrub, runtimeId: (await probe.domain('vm-1')).id, boots };
  } finally {
    await probe.close();
  }
}

/** The seed as it must be: the very bytes it was made of, user-data alone replaced. */
function scrubbed(seed: Buffer): Buffer {
  const start = seed.indexOf('#cloud-config\nruncmd');
  const end = seed.indexOf(0, start);
  const expected = Buffer.from(seed);
  expected.write(BLANK.padEnd(end - start, '\n'), start, 'latin1');
  return expected;
}

/** A VM whose cloud-init is done, and the message that its worker gets. */
async function readyToScrub(): Promise<{ readonly world: EmbeddedWorld; readonly before: Found }> {
  const world = await EmbeddedWorld.start({ image, imagePresent: true });
  await create(world);
  world.fleet.advance(60);
  return { world, before: await look(world) };
}

async function expectScrubbed(world: EmbeddedWorld, before: Found, when = ''): Promise<void> {
  const after = await look(world);
  expect(after.scrub?.doneAt, when).toBeGreaterThan(0);
  expect(after.seed.equals(scrubbed(before.seed)), when).toBe(true);
  expect(after.seed.includes(SECRET), when).toBe(false);
  expect([after.runtimeId, after.boots], when).toEqual([before.runtimeId, 1]);
}

describe('a seed that is to be scrubbed', () => {
  it('is overwritten in place once cloud-init is done, and says so', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    expect(before.seed.includes(SECRET)).toBe(true);
    const pending = await world.fleet.use((provider) => provider.get(ID));

    await world.fleet.drain();

    await expectScrubbed(world, before);
    const done = await world.fleet.use((provider) => provider.get(ID));
    expect(pending.seed).toEqual({ scrub: 'pending', at: null });
    expect(done.seed).toEqual({ scrub: 'done', at: expect.stringMatching(/^2.*Z$/) });
    expect(done.readiness).toEqual({ cloudInit: 'done', detail: null });
    expect(world.fleet.queue).toEqual([]);
    expect(world.fleet.reports).toContainEqual({
      event: 'seed-scrubbed',
      fields: { id: ID, cloudInit: 'done' },
    });
    expect(JSON.stringify(world.fleet.reports)).not.toContain(SECRET);
  });

  it('is left alone while cloud-init runs, and looked at again', async () => {
    await using world = await EmbeddedWorld.start({ image, imagePresent: true });
    world.daemon.state.cloudInitMs = 90_000;
    await create(world);
    const before = await look(world);

    world.fleet.advance(60);
    await world.fleet.drain();
    const early = await look(world);
    world.fleet.advance(60);
    await world.fleet.drain();

    expect(early.seed.equals(before.seed)).toBe(true);
    expect(early.scrub).toBeNull();
    await expectScrubbed(world, before);
  });
});

describe('a scrub, cut at every call', () => {
  it('converges when the message comes again', async () => {
    const calls = await countCalls();
    let failures = 0;
    for (let at = 1; at <= calls; at++) {
      for (const kind of ['cut-before', 'cut-after'] as const) {
        const { world, before } = await readyToScrub();
        await using _ = world;
        const queued = world.fleet.queue[0];
        if (queued === undefined) throw new Error('no message waits for the worker');
        world.daemon.faults.reset();
        world.daemon.faults.atCall(at, { kind });
        await world.fleet.drain().catch(() => {
          failures += 1;
          world.fleet.queue.push(queued);
        });
        world.daemon.faults.clear();
        world.fleet.advance(60);

        await world.fleet.drain();

        await expectScrubbed(world, before, `${kind} at call ${at}`);
      }
    }
    console.log(
      `scrub: cut before and after each of ${calls} calls, ${failures} of ${2 * calls} failed, all converged`,
    );
    expect(calls).toBeGreaterThan(15);
    expect(failures).toBeGreaterThan(calls);
  });
});

describe('a seed that is scrubbed by several', () => {
  it('ends the same when a message is delivered three times at once', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;

    await world.fleet.drain({ times: 3 });
    world.fleet.advance(60);
    await world.fleet.drain();

    await expectScrubbed(world, before);
  });

  it.each(['storageVolUpload', 'storageVolUpload:finish', 'domainSetMetadata'] as const)(
    'ends the same when a create that is so slow stores the whole seed only then, held up at %s',
    async (step) => {
      await using world = await EmbeddedWorld.start({ image, imagePresent: true });
      let before: Found | undefined;
      // The first one is held up; another one makes the VM, which boots and is scrubbed meanwhile.
      const overtake = async () => {
        world.daemon.faults.clear();
        await create(world);
        before = await look(world);
        world.fleet.advance(60);
        await world.fleet.drain();
        await expectScrubbed(world, before);
      };
      world.daemon.faults.at(step, { kind: 'hook', hook: overtake });

      await world.fleet.use((provider) => provider.create(requestOf(world)), {
        deadlineAt: world.fleet.now() + HOUR * 1000,
      });

      if (before === undefined) throw new Error(`nothing was held up at ${step}`);
      await expectScrubbed(world, before, step);
    },
  );
});

it('a seed that is stored whole between the bytes of a scrub and its record is scrubbed again', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const held = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  world.daemon.faults.at('storageVolUpload', {
    kind: 'hook',
    hook: () => {
      held.resolve();
      return released.promise;
    },
  });
  const slow = world.fleet.use((provider) => provider.create(requestOf(world)), {
    deadlineAt: world.fleet.now() + HOUR * 1000,
  });
  await held.promise;
  await create(world);
  const before = await look(world);
  world.fleet.advance(60);
  let isReleased = false;
  const isRecord = (args: unknown) => JSON.stringify(args).includes('doneAt=');
  const release = async ({ args }: Step) => {
    if (isReleased || !isRecord(args)) return;
    isReleased = true;
    released.resolve();
    await slow;
  };
  world.daemon.faults.at('domainSetMetadata', { kind: 'hook', hook: release }, 'every');

  await world.fleet.drain();

  expect(isReleased).toBe(true);
  await expectScrubbed(world, before);
});

describe('a seed that was scrubbed', () => {
  const scrub = async () => {
    const { world, before } = await readyToScrub();
    await world.fleet.drain();
    return { world, before, after: await look(world) };
  };

  it('is what a VM that was shut off starts with again, and no byte goes back', async () => {
    const { world, before, after } = await scrub();
    await using _ = world;
    world.daemon.state.domains.stop(world.daemon.state.domains.byName('vm-1'), 0);
    world.daemon.faults.reset();

    const { outcome } = await create(world);

    expect(outcome).toBe('existing');
    expect(world.daemon.faults.procedures).not.toContain('storageVolUpload');
    const again = await look(world);
    expect([again.boots, again.scrub]).toEqual([2, after.scrub]);
    expect(again.seed.equals(scrubbed(before.seed))).toBe(true);
  });

  it('gets nothing back when somebody has removed the phase, and the create runs again', async () => {
    const { world, before } = await scrub();
    await using _ = world;
    const probe = await HostProbe.open(world.fleet.options.dial, HOST);
    await probe.connection.call('domainSetMetadata', {
      dom: await probe.domain('vm-1'),
      type: DOMAIN_METADATA_ELEMENT,
      metadata: null,
      ...METADATA.phase,
      flags: DOMAIN_AFFECT_CONFIG,
    });
    await probe.close();

    await create(world);

    await expectScrubbed(world, before);
  });
});

describe('a seed that cannot be scrubbed', () => {
  /** The queue with a worker, for as long as a create has. */
  async function untilTheDeadline(world: EmbeddedWorld): Promise<void> {
    for (let minutes = 0; minutes < 70; minutes += 10) {
      await world.fleet.drain();
      world.fleet.advance(600);
    }
  }

  it('is overdue at the deadline, the VM runs on, and a repeat of the request goes on with it', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    const guest = world.daemon.state.domains.guest('vm-1');
    guest.deniedCommands.add('guest-file-open');
    await untilTheDeadline(world);
    const overdue = await world.fleet.use((provider) => provider.get(ID));
    const left = world.fleet.queue.length;
    guest.deniedCommands.clear();

    const { outcome, instance } = await create(world);
    world.fleet.advance(60);
    await world.fleet.drain();

    expect(overdue).toMatchObject({ state: 'Running', seed: { scrub: 'overdue', at: null } });
    expect(left).toBe(0);
    expect(world.fleet.reports).toContainEqual({
      event: 'scrub-given-up',
      fields: { id: ID, reason: 'the deadline of the create has passed' },
    });
    expect([outcome, instance.seed?.scrub]).toEqual(['existing', 'pending']);
    await expectScrubbed(world, before);
  });

  it.each([
    ['found no data source', { datasource: 'DataSourceNone' }],
    ['failed to look for it', { failedStage: 'init-local', errors: ['a'] }],
    ['failed to read it', { failedStage: 'init', errors: ['a'] }],
  ] as const)('is kept when cloud-init %s, and used and scrubbed in a later boot', async (_, run) => {
    const { world, before } = await readyToScrub();
    await using _world = world;
    const { cloudInit } = world.daemon.state.domains.guest('vm-1');
    const right = { ...cloudInit };
    Object.assign(cloudInit, run);

    await world.fleet.drain();

    const kept = await look(world);
    expect([kept.seed.equals(before.seed), kept.scrub]).toEqual([true, null]);
    const { readiness } = await world.fleet.use((provider) => provider.get(ID));
    expect(readiness?.detail).toMatch(/cloud-init (?:did not use|may not have used) the seed$/);
    Object.assign(cloudInit, right);
    world.fleet.advance(300);
    await world.fleet.drain();
    await expectScrubbed(world, before);
  });

  it('is given up at the deadline also where each try ends in a call that is never answered', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    const { fleet, daemon } = world;
    daemon.faults.at('storagePoolLookupByName', { kind: 'hook', hook: () => fleet.advance(59.9) }, 'every');
    daemon.faults.at('storagePoolGetXmlDesc', { kind: 'no-answer' }, 'every');

    await untilTheDeadline(world);

    expect(fleet.reports).toContainEqual({
      event: 'scrub-failed',
      fields: expect.objectContaining({ kind: 'timeout' }),
    });
    expect(fleet.reports).toContainEqual({ event: 'scrub-given-up', fields: expect.anything() });
    expect(fleet.queue).toEqual([]);
    expect((await look(world)).seed.equals(before.seed)).toBe(true);
  });

  it('waits while its VM is off, and is scrubbed when somebody has started that', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    const { domains } = world.daemon.state;
    domains.stop(domains.byName('vm-1'), 0);

    await world.fleet.drain();

    expect(world.fleet.queue).toHaveLength(1);
    const probe = await HostProbe.open(world.fleet.options.dial, HOST);
    await probe.connection.call('domainCreate', { dom: await probe.domain('vm-1') });
    await probe.close();
    world.fleet.advance(60);
    await world.fleet.drain();
    expect((await look(world)).seed.equals(scrubbed(before.seed))).toBe(true);
    expect(world.fleet.reports.map(({ event }) => event)).not.toContain('scrub-given-up');
  });

  it('waits while the configuration does not ask guests for readiness', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    const message = world.fleet.queue.splice(0)[0]?.message;
    if (message === undefined) throw new Error('no message waits for the worker');
    await using worker = world.fleet.worker({ readiness: { cloudInit: false } });

    await worker.continueWork(message);

    expect(world.fleet.queue).toHaveLength(1);
    world.fleet.advance(60);
    await world.fleet.drain();
    await expectScrubbed(world, before);
  });

  it('is looked at less and less often once the address is known', async () => {
    const { world } = await readyToScrub();
    await using _ = world;
    world.daemon.state.domains.guest('vm-1').deniedCommands.add('guest-file-open');
    const waits: number[] = [];

    for (let looks = 0; looks < 12; looks++) {
      await world.fleet.drain();
      const { message } = world.fleet.queue[0] ?? {};
      const seconds = Math.round(((message?.notBefore ?? 0) - world.fleet.now()) / 1000);
      waits.push(seconds);
      world.fleet.advance(seconds + 1);
    }

    expect(waits).toEqual([30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]);
  });

  it('is scrubbed although a later stage of cloud-init failed', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    world.daemon.state.domains.guest('vm-1').cloudInit.errors = ['a'];

    await world.fleet.drain();

    await expectScrubbed(world, before);
  });

  it('is not touched when it is not the seed that was made', async () => {
    const { world } = await readyToScrub();
    await using _ = world;
    const file = [...world.daemon.state.files.namesIn('/var/lib/libvirt/images')].find((name) =>
      name.endsWith('.seed'),
    );
    const bytes = world.daemon.state.files.get(`/var/lib/libvirt/images/${file}`)?.bytes;
    bytes?.write(16 * 2048 + 574, Buffer.from('SOMEBODY-ELSE'));
    const before = await look(world);

    await world.fleet.drain();

    const after = await look(world);
    expect(after.seed.equals(before.seed)).toBe(true);
    expect(after.scrub?.doneAt).toBeNull();
    expect(world.fleet.reports).toContainEqual({
      event: 'scrub-failed',
      fields: { id: ID, kind: 'permanent' },
    });
    expect(world.fleet.queue).toHaveLength(1);
  });

  it('is not said to be done when the bytes did not reach the volume, and is overwritten again', async () => {
    const { world, before } = await readyToScrub();
    await using _ = world;
    const { files } = world.daemon.state;
    const directory = '/var/lib/libvirt/images';
    const name = [...files.namesIn(directory)].find((each) => each.endsWith('.seed'));
    world.daemon.faults.reset();
    // The first download finds user-data, the second reads back what was written.
    const loseThem = () => files.get(`${directory}/${name}`)?.bytes.write(0, before.seed);
    world.daemon.faults.at('storageVolDownload', { kind: 'hook', hook: loseThem }, 2);

    await world.fleet.drain();
    const after = await look(world);
    world.daemon.faults.clear();
    world.fleet.advance(HOUR / 2);
    await world.fleet.drain();

    expect(after.scrub).toMatchObject({ doneAt: null });
    expect(world.fleet.reports).toContainEqual({
      event: 'scrub-failed',
      fields: { id: ID, kind: 'transient' },
    });
    await expectScrubbed(world, before);
  });

  it('goes with the VM when that is deleted while it is overwritten', async () => {
    const { world } = await readyToScrub();
    await using _ = world;
    world.daemon.faults.reset();
    world.daemon.faults.at('storageVolUpload', {
      kind: 'hook',
      hook: () => world.fleet.use(async (provider) => void (await provider.delete(ID))),
    });

    await world.fleet.drain();

    world.daemon.faults.clear();
    world.fleet.advance(HOUR);
    await world.fleet.drain();
    expect(await world.inspect()).toEqual({ running: [], broken: [], leftovers: [] });
  });
});

async function countCalls(): Promise<number> {
  const { world } = await readyToScrub();
  await using _ = world;
  world.daemon.faults.reset();
  await world.fleet.drain();
  return world.daemon.faults.calls;
}
