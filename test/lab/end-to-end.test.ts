/**
 * The whole path on real parts: the local API as a user starts it, real sshd, libvirtd and QEMU, the Debian image, and a
 * guest in which cloud-init runs to its end. What happened inside is seen from the host: the serial console, and a
 * file that the guest serves.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Instance } from '../../lib/provider/instance.ts';
import { fetchFromGuest, files, HOSTS, type LabHostName, POOL, readConsole, virsh } from './lab.ts';
import { LocalApi } from './local-api.ts';

const NAMES = Object.keys(HOSTS) as LabHostName[];
const VM = 'proxy-1';
const BOOT_LIMIT_MS = 420_000;

const USER_DATA = (host: string) => `#cloud-config
write_files:
  - path: /srv/www/proof.txt
    permissions: 0644
    content: "from ${host}"
runcmd:
  - [systemd-run, --unit=proof, python3, -m, http.server, "8080", --directory, /srv/www]
final_message: "kvmfn-final after $UPTIME s, $datasource"
`;

let api: LocalApi;
beforeAll(async () => {
  api = await LocalApi.start(files.config);
});
afterAll(() => api?.[Symbol.asyncDispose]());

const get = async (host: string, name: string) =>
  (await api.request('GET', `/instances/${host}/${name}`)).body as Instance;

async function waitFor(host: string, name: string, state: Instance['state']): Promise<Instance> {
  const until = Date.now() + BOOT_LIMIT_MS;
  let last: Instance | null = null;
  while (Date.now() < until) {
    last = await get(host, name);
    if (last.state === state) return last;
    if (last.state === 'Failed') break;
    await sleep(2_000);
  }
  throw new Error(`${host}/${name} did not become ${state}: ${JSON.stringify(last)}`);
}

async function waitForConsole(host: LabHostName, pattern: RegExp): Promise<string> {
  const until = Date.now() + BOOT_LIMIT_MS;
  for (;;) {
    const text = await readConsole(host, VM);
    if (pattern.test(text)) return text;
    if (Date.now() > until)
      throw new Error(`${host}: the console never showed ${pattern}: …${text.slice(-2_000)}`);
    await sleep(2_000);
  }
}

/** cloud-init has started the guest's server; an emulated Python needs a while until it listens. */
async function fetchWhenServed(address: string, path: string): Promise<string> {
  const until = Date.now() + BOOT_LIMIT_MS;
  for (;;) {
    try {
      return await fetchFromGuest(address, 8080, path);
    } catch (error) {
      if (Date.now() > until) throw error;
      await sleep(1_000);
    }
  }
}

const create = (host: string, name: string, more: object = {}) =>
  api.request('POST', '/instances', {
    name,
    placement: { host, machineType: 'small', image: 'debian-12' },
    ...more,
  });

describe('the doctor', () => {
  it.each(NAMES)('finds nothing wrong on %s, whose account may do nothing but this', async (host) => {
    const { status, body } = await api.request('GET', `/hosts/${host}/health`);

    expect(status).toBe(200);
    expect(body).toMatchObject({ host, ok: true });
  });
});

describe('a VM on each of two real hosts', () => {
  it('is accepted at once, imports the image and starts', async () => {
    const answers = await Promise.all(
      NAMES.map((host) =>
        create(host, VM, { uid: `uid-${host}`, cloudInit: USER_DATA(host), labels: { role: 'proxy' } }),
      ),
    );

    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    expect(answers.map(({ body }) => (body as Instance).state)).toEqual(['Provisioning', 'Provisioning']);
  });

  it.each(NAMES)(
    'boots on %s: the address appears, cloud-init finishes, the user-data took effect',
    async (host) => {
      const instance = await waitFor(host, VM, 'Running');
      const console_ = await waitForConsole(host, /kvmfn-final after/);

      expect(instance.ip?.startsWith(HOSTS[host].guests.gateway.replace(/\d+$/, ''))).toBe(true);
      expect(instance.addresses[0]).toMatchObject({ address: instance.ip, family: 'ipv4' });
      expect(console_).toMatch(/kvmfn-final after [\d.]+ s, DataSourceNoCloud \[seed=\/dev\/vdb\]/);
      expect(await fetchWhenServed(instance.ip ?? '', '/proof.txt')).toBe(`from ${host}`);
    },
  );

  it('answers a repeat of the request with the running VM', async () => {
    const [host = 'kvm-a'] = NAMES;

    const repeat = await create(host, VM, {
      uid: `uid-${host}`,
      cloudInit: USER_DATA(host),
      labels: { role: 'proxy' },
    });

    expect(repeat.status).toBe(200);
    expect(repeat.body).toMatchObject({ state: 'Running', uid: `uid-${host}` });
  });

  it('is listed, both of them, with the recorded address and without asking the guest', async () => {
    const { status, body } = await api.request('GET', '/instances?label=role=proxy');

    expect(status).toBe(200);
    expect(body).toMatchObject({
      instances: NAMES.map((host) => ({ id: `${host}/${VM}`, state: 'Running' })),
      hosts: NAMES.map((name) => ({ name, complete: true })),
    });
  });

  it.each(NAMES)('is deleted from %s without a domain or a volume left', async (host) => {
    const { status } = await api.request('DELETE', `/instances/${host}/${VM}`);

    expect(status).toBe(204);
    expect((await api.request('GET', `/instances/${host}/${VM}`)).status).toBe(404);
    expect(await virsh(host, 'list', '--all', '--name')).not.toContain(VM);
    expect(await virsh(host, 'vol-list', POOL.name)).not.toContain(`_${VM}_`);
  });

  it('is collected when its lease is over', async () => {
    const [host = 'kvm-a'] = NAMES;
    const created = await create(host, 'leased-1', { uid: 'leased', ttlSeconds: 5 });
    expect(created.status).toBe(201);
    await sleep(6_000);

    const sweep = await api.invoke('gc', { mode: 'delete' });

    expect(sweep).toMatchObject({
      mode: 'delete',
      done: [{ id: `${host}/leased-1`, uid: 'leased', outcome: 'deleted' }],
    });
    expect(await virsh(host, 'list', '--all', '--name')).not.toContain('leased-1');
    expect(await virsh(host, 'vol-list', POOL.name)).not.toContain('_leased-1_');
  });
});
