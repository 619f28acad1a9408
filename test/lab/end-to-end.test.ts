/**
 * The whole path on real parts: the local API as a user starts it, real sshd, libvirtd and QEMU, the Debian image, and a
 * guest in which cloud-init runs to its end. What happened inside is seen from the host: the serial console, and a
 * file that the guest serves.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Instance } from '../../lib/provider/instance.ts';
import { Guest } from './guest.ts';
import {
  fetchFromGuest,
  files,
  forgetGuestImage,
  HOSTS,
  type LabHostName,
  POOL,
  readConsole,
  virsh,
} from './lab.ts';
import { LocalApi } from './local-api.ts';

const NAMES = Object.keys(HOSTS) as LabHostName[];
const VM = 'proxy-1';
const BOOT_LIMIT_MS = 420_000;

/** Two of the kinds of user-data, so that the two boots show both; guest-configuration.test.ts shows the others. */
const USER_DATA: Readonly<Record<LabHostName, string>> = {
  'kvm-a': `#cloud-config
packages: [ed]
write_files:
  - path: /srv/www/proof.txt
    permissions: 0644
    content: "cloud-config on ${VM}"
runcmd:
  - [systemd-run, --unit=proof, python3, -m, http.server, "8080", --directory, /srv/www]
final_message: "kvmfn-final after $UPTIME s, $datasource"
`,
  'kvm-b': `## template: jinja
#cloud-config
{% if v1.distro == 'debian' or v1.distro == 'ubuntu' %}
packages: [ed]
{% else %}
packages: [not-in-this-guest]
{% endif %}
write_files:
  - path: /srv/www/proof.txt
    permissions: 0644
    content: "template on {{ v1.local_hostname }}"
runcmd:
  - [systemd-run, --unit=proof, python3, -m, http.server, "8080", --directory, /srv/www]
final_message: "kvmfn-final after $UPTIME s, $datasource"
`,
};
const PROOF: Readonly<Record<LabHostName, string>> = {
  'kvm-a': `cloud-config on ${VM}`,
  'kvm-b': `template on ${VM}`,
};

let api: LocalApi;
let publicKey: string;
beforeAll(async () => {
  await Promise.all(NAMES.map(forgetGuestImage));
  publicKey = (await readFile(`${files.privateKey}.pub`, 'utf8')).trim();
  api = await LocalApi.start(files.config);
});
afterAll(() => api?.[Symbol.asyncDispose]());

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

const request = (host: LabHostName) => ({
  uid: `uid-${host}`,
  cloudInit: USER_DATA[host],
  sshAuthorizedKeys: [publicKey],
  labels: { role: 'proxy' },
});

/** The two entries that a cloud-config gets are taken out again; a template stands in a part of its own, untouched. */
function withoutAgent(userData: string): string {
  return userData
    .replace(', qemu-guest-agent]', ']')
    .replace(/^ {2}- '.*systemctl start qemu-guest-agent.*'\n/m, '');
}

describe('the doctor', () => {
  it.each(NAMES)('finds nothing wrong on %s, whose account may do nothing but this', async (host) => {
    const { status, body } = await api.request('GET', `/hosts/${host}/health`);

    expect(status).toBe(200);
    expect(body).toMatchObject({ host, ok: true });
  });
});

describe('a VM on each of two real hosts', () => {
  it('is accepted at once, imports the image and starts', async () => {
    const answers = await Promise.all(NAMES.map((host) => create(host, VM, request(host))));

    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    expect(answers.map(({ body }) => (body as Instance).state)).toEqual(['Provisioning', 'Provisioning']);
  });

  it.each(NAMES)(
    'boots on %s: the address appears, cloud-init finishes, the user-data took effect',
    async (host) => {
      const instance = await api.waitForState(`${host}/${VM}`, 'Running');
      const console_ = await waitForConsole(host, /kvmfn-final after/);

      expect(instance.ip?.startsWith(HOSTS[host].guests.gateway.replace(/\d+$/, ''))).toBe(true);
      expect(instance.addresses[0]).toMatchObject({ address: instance.ip, family: 'ipv4' });
      expect(console_).toMatch(/kvmfn-final after [\d.]+ s, DataSourceNoCloud \[seed=\/dev\/vdb\]/);
      expect(await fetchWhenServed(instance.ip ?? '', '/proof.txt')).toBe(PROOF[host]);
    },
  );

  it.each(NAMES)(
    'is configured on %s by exactly that user-data, and by what the request says',
    async (host) => {
      const guest = await new Guest(host, VM).inspect();

      expect(guest).toMatchObject({
        cloudInit: { status: 'done', exitCode: 0 },
        errors: [],
        hostname: VM,
        instanceId: `${VM}-uid-${host}`,
        authorizedKeys: publicKey,
        packages: ['ed', 'qemu-guest-agent'],
      });
      expect(withoutAgent(guest.userData)).toContain(USER_DATA[host]);
    },
  );

  it('answers a repeat of the request with the running VM', async () => {
    const [host = 'kvm-a'] = NAMES;

    const repeat = await create(host, VM, request(host));

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
