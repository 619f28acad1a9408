/**
 * User-data is taken off the seed of a running VM: whatever is cut, whoever comes twice or late, the volume ends as the one
 * that was made with nothing but the bytes of user-data replaced, and the VM runs on.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseDomainXml } from '../../lib/kvm/domain-xml.ts';
import { volumeName } from '../../lib/kvm/volume-names.ts';
import type { CreateRequest } from '../../lib/provider/provider.ts';
import { HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { EmbeddedWorld, HOST } from './embedded-world.ts';

const ID = `${HOST.name}/vm-1`;
const SECRET = 'hunter2-correct-horse';
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

async function countCalls(): Promise<number> {
  const { world } = await readyToScrub();
  await using _ = world;
  world.daemon.faults.reset();
  await world.fleet.drain();
  return world.daemon.faults.calls;
}
