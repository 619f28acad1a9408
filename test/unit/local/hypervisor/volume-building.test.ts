import { beforeEach, describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import { LibvirtConnection } from '../../../../lib/libvirt/index.ts';
import { DaemonClient, overlayXml, qcow2VolumeXml, rawVolumeXml, refusal } from './daemon-client.ts';

/** Seen on libvirtd 9.0 while it made a large preallocated volume; too rare there to be a test of both daemons. */
describe('a volume that is being made', () => {
  let daemon: EmbeddedLibvirt;
  let client: DaemonClient;
  let finish: () => void;
  let isHeld: boolean;

  beforeEach(async () => {
    isHeld = false;
    const built = new Promise<void>((resolve) => {
      finish = resolve;
    });
    daemon = createEmbeddedLibvirt({
      name: 'host',
      volumeBuildMs: 7,
      sleep: (ms) => (isHeld && ms === 7 ? built : Promise.resolve()),
    });
    client = await DaemonClient.open(LibvirtConnection.open(daemon.connect()));
  });

  it('has its name, and is neither writable nor deletable before its create answers', async () => {
    const base = await client.createVolume(qcow2VolumeXml('base', 1));
    isHeld = true;
    const creating = client.createVolume(overlayXml('overlay', base.key));
    const vol = await client.volume('overlay');

    expect(await refusal(client.createVolume(rawVolumeXml('overlay', 1)))).toEqual([90, 18, -1]);
    expect(await refusal(client.deleteVolume(vol))).toEqual([55, 18, -1]);
    expect(await refusal(client.upload(vol, [new Uint8Array(1)]))).toEqual([55, 18, -1]);
    expect(await refusal(client.refresh())).toEqual([1, 18, -1]);
    expect(await client.capacity(vol)).toBe(0n);
    expect(await client.volumeXml(vol)).toContain("<format type='qcow2'/>");

    finish();
    await creating;
    expect(await client.capacity(vol)).toBe(1024n ** 3n);
    expect(await refusal(client.refresh())).toBeUndefined();
  });

  it('is gone when making it fails, and its name is free', async () => {
    isHeld = true;
    const creating = client.createVolume(qcow2VolumeXml('a', 1));
    await client.volume('a');
    daemon.state.files.capacityBytes = 0;

    finish();

    expect(await refusal(creating)).toEqual([1, 0, -1]);
    expect(await refusal(client.volume('a'))).toEqual([50, 18, -1]);
    expect(daemon.state.files.paths).toEqual([]);
  });
});
