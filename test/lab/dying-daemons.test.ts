/**
 * A real libvirtd and a real sshd that die at the wrong moment. Whatever the request had come to, it fails as something
 * worth repeating, and the same request again makes one VM with a whole seed, or leaves nothing of one.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseDomainXml } from '../../lib/kvm/domain-xml.ts';
import { ProviderError } from '../../lib/provider/provider-error.ts';
import { FleetHarness, HostProbe, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { killLibvirtd, killSshd, type LabHostName, startLibvirtd, startSshd } from './lab.ts';
import { openLab } from './lab-fleet.ts';

const FLEET = 'dying';
/** Milliseconds after the request began: connecting, reserving, storing the seed, starting, and after it all. */
const MOMENTS = [100, 250, 400, 600, 900] as const;

let fleet: FleetHarness;
let image: ImageServer;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage('dying daemons'));
  const { hosts, dial } = await openLab();
  fleet = new FleetHarness({ fleet: FLEET, hosts, dial, imageUrl: image.url, imageChecksum: image.checksum });
  for (const { name } of hosts) await fleet.warmUp(name);
});
afterAll(() => image.close());

/** Kills the daemon while the work is under way, and starts it again. Gives what the work threw, if it did. */
async function withDeath(host: LabHostName, afterMs: number, work: () => Promise<unknown>): Promise<unknown> {
  const outcome = work().then(
    () => null,
    (error: unknown) => error,
  );
  await sleep(afterMs);
  await killLibvirtd(host);
  const error = await outcome;
  await startLibvirtd(host);
  return error;
}

async function inspect(host: string, name: string) {
  const config = fleet.options.hosts.find((each) => each.name === host);
  if (config === undefined) throw new Error(`no host ${host}`);
  const probe = await HostProbe.open(fleet.options.dial, config);
  try {
    const volumes = await probe.vmVolumes(FLEET, name);
    const isDefined = (await probe.domainNames()).includes(name);
    if (!isDefined) return { isDefined, volumes, state: null, isSeedWhole: null };
    const { identity } = parseDomainXml(await probe.domainXml(name)).metadata;
    const seed = await probe.volumeBytes(volumes.find((volume) => volume.endsWith('.seed')) ?? '');
    const digest = createHash('sha256')
      .update(identity?.uuid ?? '')
      .update(seed)
      .digest('hex');
    return {
      isDefined,
      volumes,
      state: await probe.domainState(name),
      isSeedWhole: digest === identity?.seedDigest,
    };
  } finally {
    await probe.close();
  }
}

describe.each(['kvm-a', 'kvm-b'] as const)('on %s', (host) => {
  it('a libvirtd killed in a create: the same request again makes one VM', async () => {
    const failed: number[] = [];
    for (const [index, moment] of MOMENTS.entries()) {
      const request = fleet.request(`killed-${index}`, host, { uid: `u-${index}` });
      const create = () => fleet.use((provider) => provider.create(request));

      const error = await withDeath(host, moment, create);
      const again = await create();

      if (error !== null) {
        failed.push(moment);
        expect(error).toMatchObject({ retryable: true });
      }
      expect(again.instance.uid).toBe(`u-${index}`);
      expect(await inspect(host, request.name)).toMatchObject({
        isDefined: true,
        state: 1,
        isSeedWhole: true,
      });
      await fleet.use((provider) => provider.delete(`${host}/${request.name}`));
    }
    console.log(
      `${host}: libvirtd killed ${MOMENTS.join(', ')} ms into a create, which failed at ${failed.join(', ')}`,
    );
    expect(failed.length).toBeGreaterThan(0);
  });

  it('a libvirtd killed in a delete: the same request again leaves nothing', async () => {
    const failed: number[] = [];
    for (const [index, moment] of MOMENTS.entries()) {
      const request = fleet.request(`erased-${index}`, host, { uid: `u-${index}` });
      await fleet.use((provider) => provider.create(request));
      const erase = () => fleet.use((provider) => provider.delete(`${host}/${request.name}`));

      const error = await withDeath(host, moment, erase);
      await erase();

      if (error !== null) {
        failed.push(moment);
        expect(error).toMatchObject({ retryable: true });
      }
      expect(await inspect(host, request.name)).toMatchObject({ isDefined: false, volumes: [] });
    }
    console.log(
      `${host}: libvirtd killed ${MOMENTS.join(', ')} ms into a delete, which failed at ${failed.join(', ')}`,
    );
  });

  it('no sshd: the request is worth repeating, and is repeated when there is one', async () => {
    const request = fleet.request('no-sshd', host, { uid: 'u-1' });
    const create = () =>
      fleet.use((provider) => provider.create(request), { deadlineAt: fleet.now() + 8_000 });
    await killSshd(host);

    const error = await create().catch((reason: unknown) => reason);
    await startSshd(host);
    const { outcome } = await create();

    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ retryable: true });
    expect(outcome).toBe('created');
    await fleet.use((provider) => provider.delete(`${host}/no-sshd`));
  });
});
