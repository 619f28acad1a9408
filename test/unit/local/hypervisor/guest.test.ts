import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
  type EmbeddedLibvirtOptions,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import { type DomainHandle, LibvirtConnection } from '../../../../lib/libvirt/index.ts';
import {
  AGENT_CHANNEL,
  bridgeXml,
  DaemonClient,
  diskXml,
  isoImage,
  rawVolumeXml,
  refusal,
} from './daemon-client.ts';

const AGENT = 1;
const ARP = 2;
const MAC = '02:11:22:33:44:55';
const IMAGES = '/var/lib/libvirt/images';

describe('a guest of the embedded host', () => {
  let clock: number;
  let daemon: EmbeddedLibvirt;
  let client: DaemonClient;

  const boot = async (options: Partial<EmbeddedLibvirtOptions> = {}): Promise<void> => {
    daemon = createEmbeddedLibvirt({
      name: 'kvm-a',
      now: () => clock,
      bootMs: 2_000,
      shutdownMs: 500,
      ...options,
    });
    client = await DaemonClient.open(LibvirtConnection.open(daemon.connect()));
  };
  const seed = async (image: Uint8Array): Promise<void> => {
    await client.upload(await client.createVolume(rawVolumeXml('seed', image.length)), [image]);
  };
  const define = (devices = ''): Promise<DomainHandle> =>
    client.define({
      name: 'vm',
      devices:
        diskXml(`${IMAGES}/seed`, 'vdb', 'raw', true) + bridgeXml('br0', MAC) + AGENT_CHANNEL + devices,
    });
  const addresses = (dom: DomainHandle, source: number) =>
    client.connection.call('domainInterfaceAddresses', { dom, source, flags: 0 });
  const agentTimeout = (dom: DomainHandle, timeout: number) =>
    client.connection.call('domainAgentSetResponseTimeout', { dom, timeout, flags: 0 });

  beforeEach(async () => {
    clock = Date.UTC(2026, 0, 31);
    await boot();
    await seed(isoImage('cidata'));
  });

  it('has an address once its boot time has passed, the same by ARP and by its agent', async () => {
    const dom = await define();
    await client.start(dom);
    expect(await addresses(dom, ARP)).toEqual({ ifaces: [] });
    expect(await refusal(addresses(dom, AGENT))).toEqual([86, 10, -1]);

    clock += 2_000;

    expect(await addresses(dom, ARP)).toEqual({
      ifaces: [{ name: 'vnet0', hwaddr: MAC, addrs: [{ type: 0, addr: '192.0.2.10', prefix: 0 }] }],
    });
    const { ifaces } = await addresses(dom, AGENT);
    expect(ifaces.map(({ name }) => name)).toEqual(['lo', 'enp1s0']);
    expect(ifaces[1]).toEqual({
      name: 'enp1s0',
      hwaddr: MAC,
      addrs: [
        { type: 0, addr: '192.0.2.10', prefix: 24 },
        { type: 1, addr: 'fe80::11:22ff:fe33:4455', prefix: 64 },
      ],
    });
    expect(await client.xml(dom)).toContain("state='connected'");
  });

  it('keeps its address over a restart, and loses sight of it while it boots again', async () => {
    const dom = await define();
    await client.start(dom);
    await client.destroy(dom);
    await client.start(dom);

    expect(await addresses(dom, ARP)).toEqual({ ifaces: [] });
    clock += 2_000;
    expect((await addresses(dom, ARP)).ifaces[0]?.addrs[0]?.addr).toBe('192.0.2.10');
  });

  it('has an address that no other guest has', async () => {
    await boot({ bootMs: 0, skipAddresses: 5 });
    const seen = new Set<string | undefined>();
    for (let index = 0; index < 300; index++) {
      const mac = `02:00:00:00:${(index >> 8).toString(16).padStart(2, '0')}:${(index & 255).toString(16).padStart(2, '0')}`;
      const dom = await client.define({ name: `vm-${index}`, devices: bridgeXml('br0', mac) });
      await client.start(dom);
      seen.add((await addresses(dom, ARP)).ifaces[0]?.addrs[0]?.addr);
    }

    expect(seen.size).toBe(300);
    expect([...seen][0]).toBe('192.0.2.15');
    expect([...seen].every((address) => /^(192\.0\.2|198\.51\.100)\.\d+$/.test(address ?? ''))).toBe(true);
  });

  it('reports the seed it booted with, byte for byte', async () => {
    const other = isoImage('cidata', 9);
    const dom = await define();
    await client.start(dom);
    await client.upload(await client.volume('seed'), [other]);
    await client.destroy(dom);
    await client.start(dom);

    const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
    expect(daemon.state.boots.map((report) => [report.name, report.seed])).toEqual([
      ['vm', { path: `${IMAGES}/seed`, sha256: sha256(isoImage('cidata')) }],
      ['vm', { path: `${IMAGES}/seed`, sha256: sha256(other) }],
    ]);
  });

  it.each([
    ['another label', isoImage('CiData')],
    ['no ISO image', new Uint8Array(80_000).fill(1)],
    ['nothing but its size', new Uint8Array(80_000)],
  ])('SD-06: with a seed that is %s it gets an address and no agent', async (_what, image) => {
    await client.upload(await client.volume('seed'), [image]);
    const dom = await define();
    await client.start(dom);
    clock += 60_000;

    expect((await addresses(dom, ARP)).ifaces).toHaveLength(1);
    expect(await refusal(addresses(dom, AGENT))).toEqual([86, 10, -1]);
    expect(daemon.state.boots[0]?.seed).toBeUndefined();
  });

  it('goes off a moment after it was asked to, and a transient one is gone then', async () => {
    const dom = await define();
    await client.start(dom);
    clock += 2_000;

    await client.connection.call('domainShutdown', { dom });

    expect(await client.state(dom)).toEqual([1, 1]);
    clock += 500;
    expect(await client.state(dom)).toEqual([5, 1]);

    await client.start(dom);
    await client.undefine(dom);
    clock += 2_000;
    await client.connection.call('domainShutdownFlags', { dom, flags: 1 });
    clock += 500;
    expect(await refusal(client.state(dom))).toEqual([42, 10, -1]);
  });

  it('does not see the power button while it boots', async () => {
    const dom = await define();
    await client.start(dom);

    await client.connection.call('domainShutdown', { dom });
    clock += 60_000;

    expect(await client.state(dom)).toEqual([1, 1]);
  });

  it('LV-05: with a stuck agent keeps who asks waiting for as long as the response timeout says, then 86', async () => {
    const waits: number[] = [];
    await boot({
      bootMs: 0,
      sleep: async (ms) => {
        waits.push(ms);
      },
    });
    await seed(isoImage('cidata'));
    const dom = await define();
    await client.start(dom);
    daemon.state.domains.guest('vm').agent = 'stuck';
    await agentTimeout(dom, 1);
    waits.length = 0;

    expect(await refusal(addresses(dom, AGENT))).toEqual([86, 10, -1]);
    expect(waits).toEqual([1_000]);
  });

  it('LV-05: with a stuck agent and no timeout answers the second caller with 68 and the first when it is destroyed', async () => {
    await boot({ bootMs: 0, sleep: async () => undefined });
    await seed(isoImage('cidata'));
    const dom = await define();
    await client.start(dom);
    daemon.state.domains.guest('vm').agent = 'stuck';

    const first = refusal(addresses(dom, AGENT));
    expect(await refusal(addresses(dom, AGENT))).toEqual([68, 10, -1]);
    await client.destroy(dom);

    expect(await first).toEqual([86, 10, -1]);
  });

  it('is found in the state of the host without a call', async () => {
    daemon.state.domains.define(
      "<domain type='kvm'><name>foreign</name><memory>65536</memory><os><type>hvm</type></os></domain>",
    );

    expect(await client.names()).toEqual(['foreign']);
  });

  describe('asked through its agent', () => {
    const command = (dom: DomainHandle, execute: string, args: object = {}) =>
      client.connection.call('domainAgentCommand', {
        dom,
        cmd: JSON.stringify({ execute, arguments: args }),
        timeout: 1,
        flags: 0,
      });
    const answer = async (dom: DomainHandle, execute: string, args: object = {}) =>
      JSON.parse((await command(dom, execute, args)).result ?? '').return;
    const started = async (): Promise<DomainHandle> => {
      const dom = await define();
      await client.connection.call('domainCreate', { dom });
      clock += 2_000;
      return dom;
    };

    it('gives a file in as many parts as it is asked for, and forgets it when it is closed', async () => {
      const dom = await started();
      daemon.state.domains.guest('vm').files.set('/etc/motd', Buffer.from('hello'));
      const handle = await answer(dom, 'guest-file-open', { path: '/etc/motd', mode: 'r' });

      const parts = [
        await answer(dom, 'guest-file-read', { handle, count: 3 }),
        await answer(dom, 'guest-file-read', { handle, count: 3 }),
      ];
      await answer(dom, 'guest-file-close', { handle });

      expect(parts).toEqual([
        { count: 3, 'buf-b64': btoa('hel'), eof: false },
        { count: 2, 'buf-b64': btoa('lo'), eof: true },
      ]);
      expect(await refusal(command(dom, 'guest-file-read', { handle }))).toEqual([1, 10, -1]);
    });

    it('leaves cloud-init’s status from its boot on, and its result when that is done', async () => {
      const dom = await started();
      const open = (name: string) =>
        command(dom, 'guest-file-open', { path: `/run/cloud-init/${name}`, mode: 'r' });

      expect((await open('status.json')).result).toMatch(/^{"return":\d+}$/);
      expect(await refusal(open('result.json'))).toEqual([1, 10, -1]);
      clock += 1_000;
      expect((await open('result.json')).result).toMatch(/^{"return":\d+}$/);
    });

    it('refuses what its configuration denies, and says so of it', async () => {
      const dom = await started();
      daemon.state.domains.guest('vm').deniedCommands.add('guest-file-open');

      const { supported_commands: commands } = await answer(dom, 'guest-info');

      expect(await refusal(command(dom, 'guest-file-open', { path: '/a' }))).toEqual([1, 10, -1]);
      expect(commands).toContainEqual({ name: 'guest-file-open', enabled: false, 'success-response': true });
    });

    it('keeps a caller waiting no longer than the domain allows when it is stuck, and is not there before its boot', async () => {
      const dom = await define();
      await client.connection.call('domainCreate', { dom });
      expect(await refusal(command(dom, 'guest-ping'))).toEqual([86, 10, -1]);
      clock += 2_000;
      daemon.state.domains.guest('vm').agent = 'stuck';
      await agentTimeout(dom, 0);

      expect(await refusal(command(dom, 'guest-ping'))).toEqual([86, 10, -1]);
    });
  });
});

describe('the room on an embedded host', () => {
  it('ends: an upload gets 38 with errno 28, an overlay 1, a start without memory 1', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'small', storageBytes: 300_000, memoryMiB: 64 });
    const client = await DaemonClient.open(LibvirtConnection.open(daemon.connect()));
    const vol = await client.createVolume(rawVolumeXml('a', 0));

    expect(await refusal(client.upload(vol, [Buffer.alloc(200_000, 1), Buffer.alloc(200_000, 1)]))).toEqual([
      38, 38, 28,
    ]);
    expect(
      await refusal(
        client.createVolume(
          '<volume><name>q</name><capacity>1</capacity><target><format type="qcow2"/></target></volume>',
        ),
      ),
    ).toEqual([1, 0, -1]);
    const first = await client.define({ name: 'first', memoryMiB: 40 });
    const second = await client.define({ name: 'second', memoryMiB: 40 });
    await client.start(first);
    expect(await client.connection.call('nodeGetFreeMemory', undefined)).toEqual({
      freeMem: 24n * 1024n ** 2n,
    });
    expect(await refusal(client.start(second))).toEqual([1, 10, -1]);
    await client.destroy(first);
    expect(await refusal(client.start(second))).toBeUndefined();
  });

  it('is shared by two hosts with one file system: each sees the other’s volumes after a refresh', async () => {
    const one = createEmbeddedLibvirt({ name: 'one' });
    const two = createEmbeddedLibvirt({ name: 'two', files: one.state.files });
    const first = await DaemonClient.open(LibvirtConnection.open(one.connect()));
    const second = await DaemonClient.open(LibvirtConnection.open(two.connect()));
    await first.createVolume(rawVolumeXml('a', 5));

    expect(await refusal(second.volume('a'))).toEqual([50, 18, -1]);
    expect(await refusal(second.createVolume(rawVolumeXml('a', 5)))).toEqual([55, 18, -1]);
    await second.refresh();
    expect(await second.capacity(await second.volume('a'))).toBe(5n);
  });
});
