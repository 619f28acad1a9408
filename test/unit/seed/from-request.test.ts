/** From a request to what stands on the seed, or to the refusal that its sender reads: the parts of lib/seed as lib/kvm puts them together. */
import { describe, expect, it } from 'vitest';
import { resolveRequest } from '../../../lib/kvm/resolve-request.ts';
import { buildVmSeed } from '../../../lib/kvm/vm-seed.ts';
import type { CreateRequest } from '../../../lib/provider/provider.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import { OPTIONS } from '../kvm/resolving-options.ts';
import { readImage } from './iso-reader.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBERERERERERERERERERERERERERERERERERERERERER me@laptop';
const INCARNATION = { uuid: '0b1c0000-0000-4000-8000-000000000001', uid: 'order-7', createdAt: 0 };

function seedOf(more: Partial<CreateRequest> = {}, incarnation: Partial<typeof INCARNATION> = {}) {
  const request = { name: 'vm1', placement: { machineType: 'small', image: 'tiny' }, ...more };
  const image = Buffer.from(
    buildVmSeed(resolveRequest(OPTIONS, request), { ...INCARNATION, ...incarnation }),
  );
  const files = readImage(image).joliet.files.map(({ name, sector, bytes }) => [
    name,
    image.subarray(sector * 2048, sector * 2048 + bytes).toString(),
  ]);
  return Object.fromEntries(files) as Record<string, string>;
}

function faultsOf(more: object) {
  try {
    seedOf(more);
  } catch (error) {
    if (error instanceof ProviderError && error.kind === 'invalid-request') return error.errors;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a request with nothing that is optional', () => {
  it('SD-03: gives a seed with an identity and the agent', () => {
    const files = seedOf();

    expect(files['meta-data']).toBe('instance-id: "vm1-order-7"\nlocal-hostname: "vm1"\n');
    expect(files['user-data']).toContain('packages: [qemu-guest-agent]');
    expect(Object.keys(files).toSorted()).toEqual(['meta-data', 'user-data', 'vendor-data']);
  });
});

describe('the instance-id', () => {
  const instanceId = (uid: string, uuid = INCARNATION.uuid) =>
    /^instance-id: "(.*)"$/m.exec(seedOf({}, { uid, uuid })['meta-data'] ?? '')?.[1];

  it('SD-06: is another one for a VM made anew under the name', () => {
    expect(instanceId('order-7')).toBe('vm1-order-7');
    expect(instanceId('order-8')).toBe('vm1-order-8');
  });

  it('SD-06: is the same for every creator of one VM, however often its seed is made', () => {
    expect(instanceId('order-7')).toBe(instanceId('order-7'));
  });

  it('SD-06: is a name that a directory can have, and still another one, for any uid', () => {
    const unusual = ['../../etc', 'a b', 'a"b', 'x'.repeat(128), '-a', 'arn:aws:sqs:eu-west-1:1:q', ''];
    const ids = unusual.map((uid) => instanceId(uid));

    for (const id of ids) expect(id).toMatch(/^vm1-[0-9a-f]{32}$/);
    expect(new Set(ids).size).toBe(unusual.length);
  });
});

describe('fields of their own', () => {
  it('go where cloud-init has a place for them, and leave user-data alone', () => {
    const cloudInit = Buffer.from('#cloud-config\nhostname: mine\nssh_authorized_keys: [a]\n');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is these characters
    const networkConfig = { version: 2, ethernets: { lan: { match: { macaddress: '${mac}' } } } };

    const files = seedOf({ cloudInit, sshAuthorizedKeys: [KEY], networkConfig });

    expect(files['user-data']).toBe(seedOf({ cloudInit })['user-data']);
    expect(files['meta-data']).toContain(`public-keys:\n- "${KEY}"\n`);
    expect(files['network-config']).toMatch(/"macaddress": "0[26ae](?::[0-9a-f]{2}){5}"/);
  });

  it('are refused one by one, each where it stands, all at once', () => {
    const faults = faultsOf({
      cloudInit: Buffer.from('#cloud-config\na: [\n'),
      sshAuthorizedKeys: [KEY, 'ssh-ed25519 AAAA'],
      networkConfig: { version: 3 },
    });

    expect(faults?.map(({ pointer }) => pointer)).toEqual([
      '/sshAuthorizedKeys/1',
      '/networkConfig',
      '/cloudInit',
    ]);
  });
});

describe('user-data that cloud-init would not take is refused, with its place', () => {
  const cut =
    'Content-Type: multipart/mixed; boundary="BB"\nMIME-Version: 1.0\n\n--BB\nContent-Type: text/cloud-config\n\n#cloud-config\n';
  it.each([
    ['UD-02', Buffer.from('\uFEFF#cloud-config\n', 'utf16le'), /UTF-16/],
    ['UD-04', Buffer.from('##template: jinja\n#cloud-config\n'), /line 1, column 1: .*“## template: jinja”/],
    ['UD-05', Buffer.from(cut), /line 8, column 1: .*closing boundary/],
    ['UD-06', Buffer.from('#cloud-config-archive\na: b\n'), /line 2, column 1: .*list of parts/],
    ['UD-07', Buffer.from(Buffer.from('#cloud-config\nhostname: z1\n').toString('base64')), /line 1.*base64/],
    ['UD-07', Buffer.from([0x1f, 0x8b, 8, 0]), /gzip/],
    ['UD-14', Buffer.from('#cloud-config\nruncmd: [a]\nh: i\nruncmd: [b]\n'), /line 4, column 1: .*runcmd/],
  ])('%s', (_id, cloudInit, detail) => {
    expect(faultsOf({ cloudInit })).toEqual([
      { pointer: '/cloudInit', detail: expect.stringMatching(detail) },
    ]);
  });
});
