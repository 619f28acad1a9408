/**
 * What one worker alone can spoil: a message that it acknowledges is the last that anybody hears of the work, and what
 * it read a while ago is what another worker has changed since.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { volumeName } from '../../lib/kvm/volume-names.ts';
import { ERROR_CODE } from '../../lib/libvirt/errors.ts';
import type { WorkMessage } from '../../lib/provider/work.ts';
import { HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { EmbeddedWorld, HOST } from './embedded-world.ts';

const ID = `${HOST.name}/vm-1`;

let image: ImageServer;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
afterAll(() => image.close());

it('keeps a delete that libvirt refuses for good: nobody else would end it', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const { fleet, daemon } = world;
  await fleet.use((provider) => provider.create(fleet.request('vm-1', HOST.name)));
  await fleet.use((provider) => provider.delete(ID, { graceSeconds: 30 }));
  fleet.advance(31);
  const message = fleet.queue.find(({ message: { op } }) => op === 'delete')?.message;
  daemon.faults.at('domainUndefineFlags', { kind: 'error', code: ERROR_CODE.accessDenied });

  const refused = fleet.worker().continueWork(message ?? expect.fail('no message'));

  await expect(refused).rejects.toMatchObject({ kind: 'transient' });
  await fleet.use((worker) => worker.continueWork(message ?? expect.fail('no message')));
  expect([...daemon.state.domains.all]).toEqual([]);
});

/** A VM whose overlay is as a daemon leaves it that died over it, and the message that its worker gets. */
async function damagedOverlay(world: EmbeddedWorld): Promise<WorkMessage> {
  const { fleet, daemon } = world;
  daemon.faults.at('storageVolCreateXml', { kind: 'cut-before' }, 2);
  await fleet.use((p) => p.create(fleet.request('vm-1', HOST.name))).catch(() => undefined);
  daemon.faults.reset();
  const { message } = fleet.queue[0] ?? expect.fail('no message');
  const { host, name, uuid } = message;
  const probe = await HostProbe.open(fleet.options.dial, HOST);
  await probe.createVolume(
    volumeName({ fleet: fleet.options.fleet, host, name, uuid }, 'disk'),
    Buffer.alloc(512),
  );
  await probe.close();
  return message;
}

it('does not make a disk again that another worker has made good and started a guest on meanwhile', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const { fleet, daemon } = world;
  const message = await damagedOverlay(world);
  let sawTheDamage = false;
  daemon.faults.always({
    kind: 'hook',
    hook: async (step) => {
      if (sawTheDamage) {
        daemon.faults.clear();
        await fleet.use((worker) => worker.continueWork(message));
        return;
      }
      sawTheDamage = step.name === 'storageVolGetXmlDesc';
    },
  });

  await fleet.use((worker) => worker.continueWork(message));

  expect(daemon.faults.procedures.filter((procedure) => procedure === 'storageVolDelete')).toHaveLength(1);
  expect(await world.inspect()).toEqual({ running: ['vm-1'], broken: [], leftovers: [] });
});

it('tells a request whose VM goes away under it to come again: the one that made it may have been refused', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const { fleet, daemon } = world;
  const create = () => fleet.use((provider) => provider.create(fleet.request('vm-1', HOST.name)));
  daemon.faults.at('storageVolCreateXml', { kind: 'cut-before' });
  await create().catch(() => undefined);
  daemon.faults.reset();
  const takeAway = () => fleet.use((provider) => provider.delete(ID));
  daemon.faults.at('storageVolCreateXml', { kind: 'hook', hook: async () => void (await takeAway()) });

  await expect(create()).rejects.toMatchObject({ kind: 'transient' });

  expect((await create()).outcome).toBe('created');
  expect(await world.inspect()).toEqual({ running: ['vm-1'], broken: [], leftovers: [] });
});

it('starts no guest on a disk that another worker is about to delete and make again', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const { fleet, daemon } = world;
  const message = await damagedOverlay(world);
  const seen: unknown[] = [];
  const overtake = async (): Promise<void> => {
    // A second worker finds the same damage, makes the disk good and comes to its start, while the first is to delete.
    seen.push(await fleet.use((worker) => worker.continueWork(message)).catch((error: unknown) => error));
    seen.push(daemon.state.boots.filter(({ uuid }) => uuid === message.uuid).length);
  };
  daemon.faults.at('storageVolDelete', { kind: 'hook', hook: overtake });

  await fleet.use((worker) => worker.continueWork(message));

  expect(seen).toEqual([expect.objectContaining({ kind: 'transient' }), 0]);
  expect(await world.inspect()).toEqual({ running: ['vm-1'], broken: [], leftovers: [] });
});

it('makes a disk again and starts the guest where a worker died over that a while ago', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: true });
  const { fleet, daemon } = world;
  const message = await damagedOverlay(world);
  daemon.faults.at('storageVolDelete', { kind: 'cut-after' });
  await fleet.use((worker) => worker.continueWork(message)).catch(() => undefined);

  const soon = await fleet.use((worker) => worker.continueWork(message)).catch((error: unknown) => error);
  fleet.advance(21 * 60);
  await fleet.use((worker) => worker.continueWork(message));

  expect(soon).toMatchObject({ kind: 'transient' });
  expect(await world.inspect()).toEqual({ running: ['vm-1'], broken: [], leftovers: [] });
});

it('gives its claim on the image up by another session when its own breaks in the middle of the import', async () => {
  await using world = await EmbeddedWorld.start({ image, imagePresent: false });
  const { fleet, daemon } = world;
  await fleet.use((p) => p.create(fleet.request('vm-1', HOST.name)));
  const { message } = fleet.queue[0] ?? expect.fail('no message');
  const work = () => fleet.use((worker) => worker.continueWork(message), { canImport: true });
  daemon.faults.reset();
  daemon.faults.at('storageVolUpload:data', { kind: 'cut-before' });
  await expect(work()).rejects.toMatchObject({ kind: 'transient' });

  await work();

  expect(await world.inspect()).toEqual({ running: ['vm-1'], broken: [], leftovers: [] });
});
