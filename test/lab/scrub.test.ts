/**
 * User-data taken off the seed of a real guest that runs from it: seen from the host in the bytes of the volume, and from
 * inside over a reboot, which reads the seed anew and must find the same machine.
 */
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Guest } from './guest.ts';
import { files, HOSTS, pathInPool, virsh } from './lab.ts';
import { LocalApi } from './local-api.ts';
import { hostDirectories } from './topology.ts';

const HOST = 'kvm-a';
const VM = 'scrubbed-1';
const ID = `${HOST}/${VM}`;
const SECRET = 'hunter2-correct-horse';
const BLANK = '#cloud-config\n{}\n';
const REBOOT_LIMIT_MS = 420_000;
/** Two boots, one after the other. */
const TEST_LIMIT_MS = 1_200_000;

const USER_DATA = `#cloud-config
write_files:
  - { path: /etc/secret, permissions: "0600", content: "${SECRET}" }
`;

let api: LocalApi;
beforeAll(async () => {
  api = await LocalApi.start(files.config);
});
afterAll(async () => {
  await api?.request('DELETE', `/instances/${ID}`);
  await api?.[Symbol.asyncDispose]();
});

async function seedBytes(): Promise<Buffer> {
  const volumes = await readdir(hostDirectories(HOSTS[HOST]).pool);
  const seed = volumes.find((name) => name.includes(`_${VM}_`) && name.endsWith('.seed'));
  if (seed === undefined) throw new Error(`${ID} has no seed`);
  return await readFile(pathInPool(HOST, seed));
}

const guest = new Guest(HOST, VM);

/** What makes it the same machine to those who know it. */
const selfOfGuest = async () => ({
  instanceId: await guest.readText('/var/lib/cloud/data/instance-id'),
  hostKey: await guest.readText('/etc/ssh/ssh_host_ed25519_key.pub'),
  machineId: await guest.readText('/etc/machine-id'),
});

const bootId = (): Promise<string> => guest.readText('/proc/sys/kernel/random/boot_id');

/** Asks the guest for something until it is so; an agent that is away, or a file that is not there yet, is not the end. */
async function waitForGuest(what: string, is: () => Promise<boolean>): Promise<void> {
  for (const until = Date.now() + REBOOT_LIMIT_MS; ; await sleep(2_000)) {
    if (await is().catch(() => false)) return;
    if (Date.now() > until) throw new Error(`${ID}: ${what} did not come`);
  }
}

it(
  'leaves nothing of user-data on the volume, and the guest the machine it was over a reboot',
  async () => {
    const { status } = await api.request('POST', '/instances', {
      name: VM,
      placement: { host: HOST, machineType: 'small', image: 'debian-12' },
      cloudInit: USER_DATA,
      seed: { scrub: true },
    });
    expect([201, 202]).toContain(status);
    await waitForGuest('its seed', async () => (await seedBytes()).includes(SECRET));
    const before = await seedBytes();

    const done = await api.waitFor(ID, 'scrubbed', ({ seed }) => seed?.scrub === 'done');
    const after = await seedBytes();
    const self = await selfOfGuest();
    const boot = await bootId();

    expect(done).toMatchObject({ state: 'Running', readiness: { cloudInit: 'done' } });
    expect(after.includes(SECRET)).toBe(false);
    const start = before.indexOf('#cloud-config\n');
    const end = before.indexOf(0, start);
    const expected = Buffer.from(before);
    expected.write(BLANK.padEnd(end - start, '\n'), start, 'latin1');
    expect(after.equals(expected)).toBe(true);
    expect(await guest.readText('/etc/secret')).toBe(SECRET);

    await virsh(HOST, 'reboot', VM);
    await waitForGuest('another boot', async () => (await bootId()) !== boot);
    const ready = await api.waitFor(
      ID,
      'ready again',
      ({ readiness }) => readiness != null && !['running', 'unknown'].includes(readiness.cloudInit),
    );

    expect(ready.readiness).toEqual({ cloudInit: 'done', detail: null });
    expect(await selfOfGuest()).toEqual(self);
    expect(await guest.readText('/var/lib/cloud/instance/user-data.txt')).toBe(
      BLANK.padEnd(end - start, '\n'),
    );
    expect((await seedBytes()).equals(expected)).toBe(true);
  },
  TEST_LIMIT_MS,
);
