/**
 * User-data that cannot be merged as text, in real guests: a MIME message on one host, a script on the other, each on a
 * seed that the guest's own kernel reads. The two boots of end-to-end.test.ts show a cloud-config and a template.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Guest } from './guest.ts';
import { files, HOSTS, type LabHostName, PREFIX_LENGTH, readSeed, virsh } from './lab.ts';
import { LocalApi } from './local-api.ts';

const MIME = { host: 'kvm-b', name: 'mime-1', id: 'kvm-b/mime-1' } as const;
const SCRIPT = { host: 'kvm-a', name: 'script-1', id: 'kvm-a/script-1' } as const;

/** Of the guests' network, beyond what its DHCP server gives away. */
const STATIC_ADDRESS = '198.19.0.189';

/** `mount` takes Rock Ridge where it is, and Joliet when told to leave that: what each shows is written down for later. */
const MESSAGE = `Content-Type: multipart/mixed; boundary="=== of the user ==="
MIME-Version: 1.0

--=== of the user ===
Content-Type: text/cloud-config; charset="us-ascii"

#cloud-config
bootcmd:
  - |
    mkdir -p /run/seed
    for tree in rock norock; do
      mount -t iso9660 -o ro,$(test $tree = rock && echo defaults || echo norock) /dev/vdb /run/seed
      (cd /run/seed && stat --format '%n %s' * && sha256sum *) >/run/seed-$tree.txt
      umount /run/seed
    done
packages: [ed]
runcmd:
  - [touch, /var/tmp/by-runcmd]

--=== of the user ===
Content-Type: text/x-shellscript

#!/bin/sh
echo 'by the\tscript' >/var/tmp/by-script
--=== of the user ===--
`;

/** An interpreter with arguments, characters beyond ASCII, a carriage return, a tab, no line break at the end. */
const script = (mark: string) => `#!/bin/bash -eu
# Grüße, 你好 😀: a\ttab, and a carriage return at the end of this line\r
printf '%s %s %s\\n' ${mark} "$-" "$(sha256sum <"$0")" >>/var/tmp/runs.txt
echo 'für später' >"/var/tmp/${mark}"`;

let api: LocalApi;
let publicKey: string;
beforeAll(async () => {
  api = await LocalApi.start(files.config);
  publicKey = (await readFile(`${files.privateKey}.pub`, 'utf8')).trim();
});
afterAll(async () => {
  for (const { id } of [MIME, SCRIPT]) await api?.request('DELETE', `/instances/${id}`);
  await api?.[Symbol.asyncDispose]();
});

const create = ({ host, name }: { readonly host: LabHostName; readonly name: string }, more: object) =>
  api.request('POST', '/instances', {
    name,
    placement: { host, machineType: 'small', image: 'debian-12' },
    sshAuthorizedKeys: [publicKey],
    ...more,
  });

const createScript = (uid: string, mark: string) =>
  create(SCRIPT, {
    uid,
    cloudInit: gzipSync(script(mark)).toString('base64'),
    cloudInitEncoding: 'base64',
  });

const sha256 = (content: Buffer | string) => createHash('sha256').update(content).digest('hex');

/** What the guest wrote down of its mount, as it should be for these files. */
function listing(contents: ReadonlyMap<string, Buffer>): string {
  const entries = [...contents];
  const sizes = entries.map(([name, content]) => `${name} ${content.length}\n`);
  return sizes.concat(entries.map(([name, content]) => `${sha256(content)}  ${name}\n`)).join('');
}

/** The first line that a guest's sshd says. */
function readBanner(address: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port: 22, timeout: 30_000 });
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString('latin1'));
    });
    socket.once('timeout', () => socket.destroy(new Error(`${address} says nothing`)));
    socket.once('error', reject);
  });
}

describe('a guest configured by user-data of another kind', () => {
  let seed: ReadonlyMap<string, Buffer>;

  it('is created, one of them anew under the name of one that was deleted', async () => {
    await createScript('first', 'first-script');
    await api.waitFor(SCRIPT.id, 'started', ({ phase }) => phase === 'ready');
    const before = await readSeed(SCRIPT.host, SCRIPT.name);
    expect((await api.request('DELETE', `/instances/${SCRIPT.id}`)).status).toBe(204);

    const [again, message] = await Promise.all([
      createScript('second', 'second-script'),
      create(MIME, {
        uid: 'message',
        cloudInit: MESSAGE,
        networkConfig: {
          version: 2,
          ethernets: {
            lan: {
              // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is these characters
              match: { macaddress: '${mac}' },
              'set-name': 'lan0',
              addresses: [`${STATIC_ADDRESS}/${PREFIX_LENGTH}`],
              routes: [{ to: '0.0.0.0/0', via: HOSTS[MIME.host].guests.gateway }],
            },
          },
        },
      }),
    ]);
    await api.waitFor(MIME.id, 'started', ({ phase }) => phase === 'ready');
    seed = await readSeed(MIME.host, MIME.name);

    expect([201, 202]).toContain(again.status);
    expect([201, 202]).toContain(message.status);
    expect([...seed.keys()]).toEqual(['meta-data', 'network-config', 'user-data', 'vendor-data']);
    expect(before.get('meta-data')?.toString()).toContain('instance-id: "script-1-first"');
  });

  it('a MIME message: both of its parts took effect, and its bytes are in the guest', async () => {
    const guest = new Guest(MIME.host, MIME.name);

    const seen = await guest.inspect();

    expect(seen).toMatchObject({
      cloudInit: { status: 'done', exitCode: 0 },
      errors: [],
      hostname: MIME.name,
      instanceId: 'mime-1-message',
      authorizedKeys: publicKey,
      packages: ['ed', 'qemu-guest-agent'],
    });
    expect(seen.userData).toContain(`\n${MESSAGE}`);
    expect(await guest.readText('/var/tmp/by-runcmd')).toBe('');
    expect(await guest.readText('/var/tmp/by-script')).toBe('by the\tscript\n');
  });

  it.each([
    ['SD-05: exact names, under Rock Ridge', 'rock'],
    ['SD-05: exact names, under Joliet', 'norock'],
  ])('the seed, mounted by the guest’s kernel: every size and byte, %s', async (_what, tree) => {
    const guest = new Guest(MIME.host, MIME.name);

    expect(seed.get('vendor-data')).toHaveLength(0);
    expect(await guest.readText(`/run/seed-${tree}.txt`)).toBe(listing(seed));
  });

  it('a network configuration: the NIC of that MAC has its name, its address and its route', async () => {
    const guest = new Guest(MIME.host, MIME.name);
    const { addresses, ip } = await api.waitForState(MIME.id, 'Running');

    const address = await guest.run('/sbin/ip', '-4', '-oneline', 'address', 'show', 'dev', 'lan0');
    const route = await guest.run('/sbin/ip', 'route', 'show', 'default');

    expect(address.stdout).toContain(`inet ${STATIC_ADDRESS}/${PREFIX_LENGTH}`);
    expect(route.stdout).toContain(`default via ${HOSTS[MIME.host].guests.gateway} dev lan0`);
    expect([ip, addresses[0]?.mac]).toEqual([
      STATIC_ADDRESS,
      (await guest.readText('/sys/class/net/lan0/address')).trim(),
    ]);
    expect(await readBanner(STATIC_ADDRESS)).toMatch(/^SSH-2.0-OpenSSH/);
    await api.request('DELETE', `/instances/${MIME.id}`);
  });

  it('SD-06: a script: run by its interpreter with its arguments, byte by byte, and nothing of the one before', async () => {
    const guest = new Guest(SCRIPT.host, SCRIPT.name);

    const seen = await guest.inspect();

    expect(seen).toMatchObject({
      cloudInit: { status: 'done', exitCode: 0 },
      errors: [],
      hostname: SCRIPT.name,
      instanceId: 'script-1-second',
      authorizedKeys: publicKey,
      packages: ['qemu-guest-agent'],
    });
    const text = script('second-script');
    expect(await guest.readText('/var/lib/cloud/instance/scripts/part-001')).toBe(text);
    expect(await guest.readText('/var/tmp/runs.txt')).toMatch(
      new RegExp(`^second-script \\w*e\\w*u\\w* ${sha256(text)}  -\\n$`),
    );
    expect(await guest.readText('/var/tmp/second-script')).toBe('für später\n');
  });

  it('SD-06: a restart is none of a new machine: the instance-id and the host key stay, nothing runs again', async () => {
    const guest = new Guest(SCRIPT.host, SCRIPT.name);
    const remembered = async () => ({
      instanceId: await guest.readText('/var/lib/cloud/data/instance-id'),
      runs: await guest.readText('/var/tmp/runs.txt'),
      hostKey: await guest.readText('/etc/ssh/ssh_host_ed25519_key.pub'),
    });
    const before = { ...(await remembered()), boot: await guest.readText('/proc/sys/kernel/random/boot_id') };

    // A reset is as a power cut: what the guest's kernel has not written yet would be missing afterwards.
    await guest.run('/bin/sync');
    await virsh(SCRIPT.host, 'reset', SCRIPT.name);
    const { cloudInit, errors } = await guest.inspect();

    expect({ cloudInit, errors }).toMatchObject({ cloudInit: { status: 'done', exitCode: 0 }, errors: [] });
    expect(await remembered()).toEqual({
      instanceId: before.instanceId,
      runs: before.runs,
      hostKey: before.hostKey,
    });
    expect(await guest.readText('/proc/sys/kernel/random/boot_id')).not.toBe(before.boot);
  });
});
