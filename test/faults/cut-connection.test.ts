/**
 * The connection is cut at every call of a create and of a delete, before and after the daemon carried it out. Then
 * either the same request comes again, or nobody does and only the queue and the collector go on.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METADATA } from '../../lib/kvm/metadata.ts';
import { buildDeleting, metadataText } from '../../lib/kvm/metadata-elements.ts';
import { DOMAIN_AFFECT_CONFIG, DOMAIN_METADATA_ELEMENT } from '../../lib/libvirt/constants.ts';
import { HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { EmbeddedWorld, HOST } from './embedded-world.ts';

type Cut = 'cut-before' | 'cut-after';
const CUTS: readonly Cut[] = ['cut-before', 'cut-after'];
const ID = `${HOST.name}/vm-1`;
const NOTHING = { running: [], broken: [], leftovers: [] };
const ONE = { running: ['vm-1'], broken: [], leftovers: [] };

let image: ImageServer;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
afterAll(() => image.close());

/** What is cut: the create as the API does it, as the worker does it with the import, and the delete. */
const OPERATIONS = {
  'create with the image on the host': {
    imagePresent: true,
    prepare: async (_world: EmbeddedWorld) => undefined,
    run: create,
  },
  'create with the import': {
    imagePresent: false,
    prepare: async (_world: EmbeddedWorld) => undefined,
    run: async (world: EmbeddedWorld) => {
      await using worker = world.fleet.worker();
      await worker.create(world.fleet.request('vm-1', HOST.name, { uid: 'u-1' }));
    },
  },
  delete: { imagePresent: true, prepare: create, run: erase },
} as const;

async function create(world: EmbeddedWorld): Promise<void> {
  await world.fleet.use((provider) =>
    provider.create(world.fleet.request('vm-1', HOST.name, { uid: 'u-1' })),
  );
}

async function erase(world: EmbeddedWorld): Promise<void> {
  await world.fleet.use((provider) => provider.delete(ID));
}

/** Runs the operation with a cut at call `at`; returns whether it failed for it. */
async function runCut(world: EmbeddedWorld, run: typeof create, at: number, kind: Cut): Promise<boolean> {
  world.daemon.faults.reset();
  world.daemon.faults.atCall(at, { kind });
  const failed = await run(world).then(
    () => false,
    () => true,
  );
  world.daemon.faults.clear();
  return failed;
}

async function countCalls({
  imagePresent,
  prepare,
  run,
}: (typeof OPERATIONS)[keyof typeof OPERATIONS]): Promise<number> {
  await using world = await EmbeddedWorld.start({ image, imagePresent });
  await prepare(world);
  world.daemon.faults.reset();
  await run(world);
  return world.daemon.faults.calls;
}

describe.each(Object.entries(OPERATIONS))('%s, cut at every call', (title, operation) => {
  const { imagePresent, prepare, run } = operation;
  const wanted = title === 'delete' ? NOTHING : ONE;

  it('converges when the same request comes again', async () => {
    const calls = await countCalls(operation);
    let failures = 0;
    for (let at = 1; at <= calls; at++) {
      for (const kind of CUTS) {
        await using world = await EmbeddedWorld.start({ image, imagePresent });
        await prepare(world);
        if (await runCut(world, run, at, kind)) failures += 1;
        // A claim on the image outlives the importer that was cut off: the repeat comes when it has run out.
        world.fleet.advance(120);

        await run(world);

        expect(await world.inspect(), `${kind} at call ${at}`).toEqual(wanted);
      }
    }
    console.log(
      `${title}: cut before and after each of ${calls} calls, ${failures} of ${2 * calls} requests failed, all converged`,
    );
    expect(calls).toBeGreaterThan(5);
    expect(failures).toBeGreaterThan(calls);
  });

  it('ends finished or with nothing left when only the queue and the collector go on', async () => {
    const calls = await countCalls(operation);
    const ends = { finished: 0, nothing: 0 };
    for (let at = 1; at <= calls; at++) {
      for (const kind of CUTS) {
        await using world = await EmbeddedWorld.start({ image, imagePresent });
        await prepare(world);
        await runCut(world, run, at, kind);

        await world.settle();

        const end = await world.inspect();
        const isFinished = end.running.length === 1;
        expect(end, `${kind} at call ${at}`).toEqual(isFinished ? ONE : NOTHING);
        ends[isFinished ? 'finished' : 'nothing'] += 1;
      }
    }
    console.log(`${title}: ${2 * calls} cuts left to queue and collector: ${JSON.stringify(ends)}`);
    expect(ends.nothing).toBeGreaterThan(0);
  });
});

it('a start that lands at any call of a delete leaves no running VM behind its success', async () => {
  const calls = await countCalls(OPERATIONS.delete);
  let started = 0;
  for (let at = 1; at <= calls; at++) {
    await using world = await EmbeddedWorld.start({ image, imagePresent: true });
    await create(world);
    const probe = await HostProbe.open(world.fleet.options.dial, HOST);
    await probe.connection.call('domainDestroy', { dom: await probe.domain('vm-1') });
    world.daemon.faults.reset();
    // A worker that has looked for the mark before it was written, and now starts.
    const start = async () => {
      world.daemon.faults.clear();
      await probe.start('vm-1').then(
        () => {
          started += 1;
        },
        () => undefined,
      );
    };
    world.daemon.faults.atCall(at, { kind: 'hook', hook: start });

    await erase(world);

    expect(await probe.domainNames(), `start at call ${at}`).toEqual([]);
    expect(await world.inspect(), `start at call ${at}`).toEqual(NOTHING);
    await probe.close();
  }
  console.log(`delete: a start at each of ${calls} calls, ${started} of them succeeded for a moment`);
  expect(started).toBeGreaterThan(3);
});

it('a create that is marked as deleted while it starts ends the VM itself, for the delete may have died', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const probe = await HostProbe.open(world.fleet.options.dial, HOST);
  const record = { since: world.fleet.now(), reason: 'asked for', graceUntil: null };
  const mark = async () => {
    await probe.connection.call('domainSetMetadata', {
      dom: await probe.domain('vm-1'),
      type: DOMAIN_METADATA_ELEMENT,
      metadata: metadataText(buildDeleting(record)),
      key: METADATA.deleting.key,
      uri: METADATA.deleting.uri,
      flags: DOMAIN_AFFECT_CONFIG,
    });
  };
  world.daemon.faults.at('domainCreate', { kind: 'hook', hook: mark });

  await expect(create(world)).rejects.toMatchObject({ kind: 'conflict' });

  expect(await world.inspect()).toEqual(NOTHING);
  await probe.close();
});
