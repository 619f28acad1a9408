import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../infra/local/hypervisor/embedded-libvirt.ts';
import { type ImportOptions, importImage } from '../../../lib/image/image-import.ts';
import { baseVolumeName, type ImageSource } from '../../../lib/image/image-source.ts';
import { imageState } from '../../../lib/image/image-state.ts';
import { generationVolumeName, type VolumeRole } from '../../../lib/image/image-volumes.ts';
import { LibvirtConnection } from '../../../lib/libvirt/index.ts';
import { buildQcow2Disk, checksumOf } from '../../contract/qcow2-disk.ts';

const FOLDER = '/var/lib/libvirt/images';
const ENOSPC = 28;

const disk = buildQcow2Disk({ virtualSizeBytes: 64 * 1024 ** 2, dataClusters: 1, fill: 3 });
const source: ImageSource = {
  name: 'tiny',
  url: 'http://images.example/disk',
  format: 'qcow2',
  checksum: checksumOf(disk),
};
const base = baseVolumeName(source);

async function sessionWith(daemon: EmbeddedLibvirt) {
  const connection = await LibvirtConnection.open(daemon.connect());
  const { pool } = await connection.call('storagePoolLookupByName', { name: 'default' });
  const fetch: ImportOptions['fetch'] = async () =>
    new Response(new Uint8Array(disk), { headers: { 'content-length': String(disk.length) } });
  const now = (): number => 5_000;
  return {
    run: () => importImage(connection, pool, source, { fetch, now, deadlineAt: 60_000 }),
    look: () => imageState(connection, pool, source, { now }),
    create: (role: VolumeRole, generation: number, capacity: number) =>
      connection.call('storageVolCreateXml', {
        pool,
        xml: `<volume><name>${generationVolumeName(base, role, generation)}</name><capacity>${capacity}</capacity></volume>`,
        flags: 0,
      }),
  };
}

const filesOn = (daemon: EmbeddedLibvirt): string[] => [...daemon.state.files.namesIn(FOLDER)].sort();

describe('an import', () => {
  it('LV-03: passes on that the pool filled up, and gives the room back', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    daemon.faults.at('storageVolUpload:data', { kind: 'error', code: 38, int1: ENOSPC }, 2);
    const { run, look } = await sessionWith(daemon);

    await expect(run()).rejects.toMatchObject({ name: 'LibvirtError', code: 38, int1: ENOSPC });

    expect(filesOn(daemon)).toEqual([`${base}.verdict.1`]);
    expect(await look()).toEqual({ state: 'absent' });
    expect(await run()).toBe('imported');
    expect(filesOn(daemon)).toEqual([`${base}.2`, `${base}.verdict.2`]);
  });

  it('is taken back also on a host whose disk takes seconds to flush each volume that is made', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    daemon.faults.at('storageVolUpload:finish', { kind: 'error', code: 38, int1: ENOSPC });
    const { run } = await sessionWith(daemon);
    daemon.faults.at('storageVolCreateXml', { kind: 'delay', ms: 3_500 }, 3);

    await expect(run()).rejects.toMatchObject({ code: 38 });

    expect(filesOn(daemon)).toEqual([`${base}.verdict.1`]);
  });

  it('waits for a volume of a dead importer that the daemon is still making, and deletes it', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a', volumeBuildMs: 300 });
    const [dead, next] = [await sessionWith(daemon), await sessionWith(daemon)];
    await dead.create('claim', 1, 1);
    const beginData = async (): Promise<void> => {
      void dead.create('data', 1, disk.length);
      await setTimeout(50);
    };
    daemon.faults.at('storageVolLookupByName', { kind: 'hook', hook: beginData });

    expect(await next.run()).toBe('imported');

    expect(filesOn(daemon)).toEqual([`${base}.2`, `${base}.verdict.2`]);
  });

  it('goes on while the pool refuses to be refreshed because a volume is being made in it', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    daemon.faults.at('storagePoolRefresh', { kind: 'error', code: 1 }, 'every');

    expect(await (await sessionWith(daemon)).run()).toBe('imported');
  });

  it('is done when its own verdict was carried out by a call whose answer it never saw', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    const { create, run, look } = await sessionWith(daemon);
    const giveVerdict = async (): Promise<void> => {
      await create('verdict', 1, 64 * 1024 ** 2);
    };
    daemon.faults.at('storageVolUpload:finish', { kind: 'hook', hook: giveVerdict });

    expect(await run()).toBe('imported');
    expect(await look()).toMatchObject({ state: 'present', volume: `${base}.1` });
  });

  it('touches nothing for a verdict that has no size yet, and counts on nothing either', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    const { create, run, look } = await sessionWith(daemon);
    await create('data', 1, 1024);
    await create('verdict', 1, 0);

    expect(await look()).toEqual({ state: 'absent' });
    expect(await run()).toBe('imported');

    expect(await look()).toMatchObject({ state: 'present', volume: `${base}.2` });
    expect(filesOn(daemon)).toEqual([`${base}.1`, `${base}.2`, `${base}.verdict.1`, `${base}.verdict.2`]);
  });

  it('begins anew when the data of a verified generation was removed by hand', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    const { run, look } = await sessionWith(daemon);
    await run();
    daemon.state.files.remove(`${FOLDER}/${base}.1`);

    expect(await look()).toEqual({ state: 'absent' });
    expect(await run()).toBe('imported');

    expect(filesOn(daemon)).toEqual([`${base}.2`, `${base}.verdict.2`]);
  });
});

describe('two hosts on one shared pool', () => {
  it('share an import, though the second daemon has not seen the first one write', async () => {
    const first = createEmbeddedLibvirt({ name: 'kvm-a' });
    const second = createEmbeddedLibvirt({ name: 'kvm-b', files: first.state.files });
    const onSecond = await sessionWith(second);
    expect(await (await sessionWith(first)).run()).toBe('imported');
    expect(await onSecond.look()).toEqual({ state: 'absent' });

    expect(await onSecond.run()).toBe('imported');

    expect(await onSecond.look()).toMatchObject({ state: 'present', volume: `${base}.1` });
    expect(filesOn(second)).toEqual([`${base}.1`, `${base}.verdict.1`]);
  });

  it('do so even when the second cannot look: what it would write is there already', async () => {
    const first = createEmbeddedLibvirt({ name: 'kvm-a' });
    const second = createEmbeddedLibvirt({ name: 'kvm-b', files: first.state.files });
    const onSecond = await sessionWith(second);
    await (await sessionWith(first)).run();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      second.faults.at('storagePoolRefresh', { kind: 'error', code: 1 }, attempt);
    }

    expect(await onSecond.run()).toBe('imported');

    expect(filesOn(second)).toEqual([`${base}.1`, `${base}.verdict.1`]);
  });
});
