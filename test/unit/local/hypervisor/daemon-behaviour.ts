/**
 * How libvirtd 9.0 behaves, as a suite for any daemon. daemon-behaviour.test.ts runs it on the embedded one always, and on
 * a real one when told where its socket is: what the product's tests rely on is then known to be true of both.
 */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatUuid, type LibvirtConnection } from '../../../../lib/libvirt/index.ts';
import {
  AGENT_CHANNEL,
  bridgeXml,
  DaemonClient,
  diskXml,
  domainXml,
  overlayXml,
  qcow2VolumeXml,
  rawVolumeXml,
  refusal,
  staleHandle,
} from './daemon-client.ts';

export interface Daemon {
  connect(): Promise<LibvirtConnection>;
  /** A directory pool that nobody else uses; the suite removes what it makes. */
  readonly pool: string;
  readonly poolPath: string;
  readonly bridge: string;
}

const ERR = { internal: [1, 10, -1], noMetadata: [80, 20, -1], noDomain: [42, 10, -1] };
const CURRENT = 0;
const LIVE = 1;
const CONFIG = 2;
const INACTIVE = 2;
const MAC = '02:11:22:33:44:55';

export function describeDaemon(title: string, start: () => Promise<Daemon>): void {
  describe(title, () => {
    let daemon: Daemon;
    let client: DaemonClient;

    const clean = async (): Promise<void> => {
      const { domains } = await client.connection.call('connectListAllDomains', { needResults: 1, flags: 0 });
      for (const dom of domains) {
        await refusal(client.destroy(dom));
        await refusal(client.undefine(dom));
      }
      const { pool } = client;
      const { vols } = await client.connection.call('storagePoolListAllVolumes', {
        pool,
        needResults: 1,
        flags: 0,
      });
      for (const vol of vols) {
        await client.deleteVolume(vol);
      }
    };

    beforeEach(async () => {
      daemon = await start();
      client = await DaemonClient.open(daemon.connect(), daemon.pool);
      await clean();
    });

    afterEach(async () => {
      await clean();
      await client[Symbol.asyncDispose]();
    });

    describe('definitions', () => {
      it('stores a domain whose disks do not exist yet', async () => {
        const dom = await client.define({ name: 'a', devices: diskXml(`${daemon.poolPath}/later.qcow2`) });

        expect(dom.id).toBe(-1);
        expect(await client.state(dom)).toEqual([5, 0]);
      });

      it('refuses a taken name with another UUID, and a taken UUID with another name: 9, error domain 20', async () => {
        const dom = await client.define({ name: 'a' });
        const uuid = formatUuid(dom.uuid);

        expect(await refusal(client.define({ name: 'a', uuid: randomUUID() }))).toEqual([9, 20, -1]);
        expect(await refusal(client.define({ name: 'b', uuid }))).toEqual([9, 20, -1]);
      });

      it('replaces everything when the same UUID is defined again, metadata included', async () => {
        const uuid = randomUUID();
        await client.define({
          name: 'a',
          uuid,
          metadata: '<m xmlns="urn:one"/>',
          devices: bridgeXml(daemon.bridge, MAC),
        });

        const dom = await client.define({
          name: 'a',
          uuid,
          metadata: '<m xmlns="urn:two"/>',
          devices: bridgeXml(daemon.bridge, '02:11:22:33:44:66'),
        });

        expect(await refusal(client.getMetadata(dom, 'urn:one', CONFIG))).toEqual(ERR.noMetadata);
        expect(await client.xml(dom, INACTIVE)).toContain('02:11:22:33:44:66');
      });

      it('names the fault of a definition it does not take by code and error domain', async () => {
        const broken: [string, string][] = [
          ['no XML', '<domain'],
          ['another root', '<network><name>a</name></network>'],
          ['no name', '<domain type="qemu"/>'],
          ['a slash in the name', domainXml({ name: 'a/b' })],
          ['no UUID', domainXml({ name: 'a', uuid: 'nonsense' })],
          ['an unknown type', domainXml({ name: 'a', virtType: 'xyz' })],
          ['no memory', domainXml({ name: 'a', memoryMiB: 0 })],
          [
            'a multicast MAC',
            domainXml({ name: 'a', devices: bridgeXml(daemon.bridge, '03:00:00:00:00:01') }),
          ],
          ['no MAC', domainXml({ name: 'a', devices: bridgeXml(daemon.bridge, 'zz') })],
          ['a target twice', domainXml({ name: 'a', devices: diskXml('/x') + diskXml('/y') })],
          ['an IDE disk', domainXml({ name: 'a', devices: diskXml('/x', 'hda').replace('virtio', 'ide') })],
        ];

        const answers = await Promise.all(
          broken.map(async ([what, xml]) => [what, await refusal(client.define(xml))]),
        );

        expect(Object.fromEntries(answers)).toEqual({
          'no XML': [35, 20, -1],
          'another root': [27, 5, -1],
          'no name': [21, 20, -1],
          'a slash in the name': [27, 20, -1],
          'no UUID': [1, 20, -1],
          'an unknown type': [67, 20, -1],
          'no memory': [27, 20, -1],
          'a multicast MAC': [27, 20, -1],
          'no MAC': [27, 20, -1],
          'a target twice': [27, 20, -1],
          'an IDE disk': [67, 10, -1],
        });
        expect(await client.names()).toEqual([]);
      });

      it('writes MAC addresses in lower case and makes one where none is given', async () => {
        const upper = await client.define({
          name: 'a',
          devices: bridgeXml(daemon.bridge, '02:AB:CD:EF:00:11'),
        });
        const none = await client.define({
          name: 'b',
          devices: bridgeXml(daemon.bridge, MAC).replace(/<mac [^>]*>/, ''),
        });

        expect(await client.xml(upper)).toContain("<mac address='02:ab:cd:ef:00:11'/>");
        expect(await client.xml(none)).toMatch(/<mac address='52:54:00(:[0-9a-f]{2}){3}'\/>/);
      });

      it('answers a handle that is no longer valid with 42 in every call', async () => {
        const dom = staleHandle('gone');

        const answers = await Promise.all([
          refusal(client.start(dom)),
          refusal(client.destroy(dom)),
          refusal(client.undefine(dom)),
          refusal(client.xml(dom)),
          refusal(client.state(dom)),
          refusal(client.setMetadata(dom, 'urn:x', '<x/>', CONFIG)),
          refusal(client.getMetadata(dom, 'urn:x', CONFIG)),
          refusal(client.connection.call('domainSetAutostart', { dom, autostart: 1 })),
          refusal(client.connection.call('domainInterfaceAddresses', { dom, source: 2, flags: 0 })),
          refusal(client.connection.call('domainAgentSetResponseTimeout', { dom, timeout: 1, flags: 0 })),
          refusal(client.connection.call('domainShutdownFlags', { dom, flags: 0 })),
        ]);

        expect(answers).toEqual(answers.map(() => ERR.noDomain));
      });

      it('refuses flags it does not know: 8, with int1 0', async () => {
        const dom = await client.define({ name: 'a' });

        expect(await refusal(client.undefine(dom, 128))).toEqual([8, 10, 0]);
        expect(await refusal(client.undefine(dom, 4 | 8))).toEqual([55, 10, -1]);
        expect(await refusal(client.undefine(dom, 1 | 2 | 4 | 16 | 32))).toBeUndefined();
      });
    });

    describe('metadata', () => {
      const ONE = '<k:i xmlns:k="urn:one" v="1"><k:x>00123</k:x></k:i>';

      it('LV-21: gives an element back by namespace URI, without its prefix, its text as it was', async () => {
        const dom = await client.define({ name: 'a', metadata: ONE });

        expect(await client.getMetadata(dom, 'urn:one', CONFIG)).toBe('<i v="1">\n  <x>00123</x>\n</i>');
      });

      it.each([
        [
          'entities',
          '<s v="a&amp;b &lt;"><t>é "q"</t><!-- c --></s>',
          '<s v="a&amp;b &lt;">\n  <t>é "q"</t>\n  <!-- c -->\n</s>',
        ],
        ['white space', '<s>\n   <t>  a  </t>\n <q/>\n</s>', '<s>\n   <t>  a  </t>\n <q/>\n</s>'],
        ['mixed content', '<s>a<b/>c</s>', '<s>a<b/>c</s>'],
        ['CDATA', '<s><![CDATA[x<y]]></s>', '<s><![CDATA[x<y]]></s>'],
        [
          'character references',
          '<s v="a&#10;b &quot;\'&gt;">a&gt;b&#13;c\td "\'</s>',
          '<s v="a&#10;b &quot;\'&gt;">a&gt;b&#13;c\td "\'</s>',
        ],
        ['references to letters', '<s>&#233;&#x1F600;&apos;</s>', "<s>é😀'</s>"],
        ['a declaration', '<?xml version="1.0"?><s/>', '<s/>'],
        [
          'another namespace inside',
          '<s xmlns:o="urn:o" o:v="1"><o:c>1</o:c><d/></s>',
          '<s xmlns:o="urn:o" o:v="1">\n  <o:c>1</o:c>\n  <d/>\n</s>',
        ],
        ['breaks in an attribute', '<s v="a\nb\tc"/>', '<s v="a b c"/>'],
        ['an empty element in two tags', '<s><b></b></s>', '<s>\n  <b/>\n</s>'],
      ])('keeps %s as libxml2 does', async (_what, written, read) => {
        const dom = await client.define({ name: 'a' });

        await client.setMetadata(dom, 'urn:p', written, CONFIG);

        expect(await client.getMetadata(dom, 'urn:p', CONFIG)).toBe(read);
      });

      it('keeps one element for each URI, in the XML under the prefix it was written with', async () => {
        const dom = await client.define({ name: 'a', metadata: `${ONE}${ONE}<foo/>` });

        await client.setMetadata(dom, 'urn:two', '<s><t/></s>', CONFIG, 'kk');
        await client.setMetadata(dom, 'urn:two', '<s v="2"/>', CONFIG, 'kz');

        const xml = await client.xml(dom, INACTIVE);
        expect(xml.slice(xml.indexOf('  <metadata>'), xml.indexOf('  <memory'))).toBe(
          [
            '  <metadata>',
            '    <k:i xmlns:k="urn:one" v="1">',
            '      <k:x>00123</k:x>',
            '    </k:i>',
            '    <kz:s xmlns:kz="urn:two" v="2"/>',
            '  </metadata>',
            '',
          ].join('\n'),
        );
      });

      it('drops the indentation of metadata that came with the definition', async () => {
        const metadata = '\n  <m xmlns="urn:ws">\n      <a> t </a>\n\n  <b/></m>\n ';
        const dom = await client.define({ name: 'a', metadata });

        expect(await client.getMetadata(dom, 'urn:ws', CONFIG)).toBe('<m>\n  <a> t </a>\n  <b/>\n</m>');
      });

      it('says 80 for what is not there, and takes a removal of it', async () => {
        const dom = await client.define({ name: 'a' });

        expect(await refusal(client.getMetadata(dom, 'urn:nope', CONFIG))).toEqual(ERR.noMetadata);
        expect(await refusal(client.setMetadata(dom, 'urn:nope', null, CONFIG))).toBeUndefined();
      });

      it('refuses bad XML, a bad prefix and a missing one, and changes nothing', async () => {
        const dom = await client.define({ name: 'a', metadata: ONE });

        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s', CONFIG))).toEqual([35, 20, -1]);
        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s/><q/>', CONFIG))).toEqual([35, 20, -1]);
        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s/>', CONFIG, '1 k'))).toEqual([1, 5, -1]);
        const noKey = { dom, type: 2, metadata: '<s/>', key: null, uri: 'urn:one', flags: CONFIG };
        expect(await refusal(client.connection.call('domainSetMetadata', noKey))).toEqual([8, 20, 0]);
        expect(await client.getMetadata(dom, 'urn:one', CONFIG)).toContain('00123');
      });

      it('refuses LIVE on a shut-off domain and reads CURRENT from the stored definition', async () => {
        const dom = await client.define({ name: 'a', metadata: ONE });

        expect(await refusal(client.getMetadata(dom, 'urn:one', LIVE))).toEqual([55, 20, -1]);
        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s/>', LIVE))).toEqual([55, 20, -1]);
        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s/>', LIVE | CONFIG))).toEqual([
          55, 20, -1,
        ]);
        expect(await refusal(client.getMetadata(dom, 'urn:one', LIVE | CONFIG))).toEqual([8, 20, 0]);
        expect(await client.getMetadata(dom, 'urn:one', CURRENT)).toContain('00123');
      });

      it('loses what CURRENT wrote on a running domain when it stops', async () => {
        const dom = await client.define({ name: 'a' });
        await client.start(dom);

        await client.setMetadata(dom, 'urn:p', '<live/>', CURRENT);
        await client.setMetadata(dom, 'urn:both', '<both/>', LIVE | CONFIG);

        expect(await client.getMetadata(dom, 'urn:p', LIVE)).toBe('<live/>');
        expect(await refusal(client.getMetadata(dom, 'urn:p', CONFIG))).toEqual(ERR.noMetadata);
        await client.destroy(dom);
        expect(await refusal(client.getMetadata(dom, 'urn:p', CURRENT))).toEqual(ERR.noMetadata);
        expect(await client.getMetadata(dom, 'urn:both', CONFIG)).toBe('<both/>');
      });

      it('has no CONFIG on a transient domain: 55', async () => {
        const dom = await client.define({ name: 'a', metadata: ONE });
        await client.start(dom);
        await client.undefine(dom);

        expect(await refusal(client.getMetadata(dom, 'urn:one', CONFIG))).toEqual([55, 20, -1]);
        expect(await refusal(client.setMetadata(dom, 'urn:one', '<s/>', CONFIG))).toEqual([55, 20, -1]);
        expect(await client.getMetadata(dom, 'urn:one', CURRENT)).toContain('00123');
      });
    });

    describe('starting and stopping', () => {
      it('gives a running domain an id, another one at every start', async () => {
        const dom = await client.define({ name: 'a' });

        const first = await client.start(dom);
        expect(await client.state(dom)).toEqual([1, 1]);
        expect(await client.xml(dom)).toContain(`<domain type='qemu' id='${first.id}'>`);
        expect(await client.xml(dom, INACTIVE)).toContain("<domain type='qemu'>");
        await client.destroy(dom);
        const second = await client.start(dom);

        expect(first.id).toBeGreaterThan(0);
        expect(second.id).toBeGreaterThan(first.id);
        expect(await client.lookup('a')).toEqual(second);
      });

      it('refuses to start what runs and to stop what does not: 55', async () => {
        const dom = await client.define({ name: 'a' });

        expect(await refusal(client.destroy(dom))).toEqual([55, 20, -1]);
        expect(await refusal(client.connection.call('domainShutdown', { dom }))).toEqual([55, 10, -1]);
        await client.start(dom);
        expect(await refusal(client.start(dom))).toEqual([55, 10, -1]);
        expect(await refusal(client.connection.call('domainCreate', { dom }))).toEqual([55, 10, -1]);
        await client.destroy(dom);
        expect(await client.state(dom)).toEqual([5, 2]);
      });

      it('starts paused when asked to', async () => {
        const dom = await client.define({ name: 'a' });

        await client.start(dom, 1);

        expect(await client.state(dom)).toEqual([3, 1]);
      });

      it('makes a running domain transient when it is undefined, and forgets it when it stops', async () => {
        const dom = await client.define({ name: 'a' });
        await client.connection.call('domainSetAutostart', { dom, autostart: 1 });
        await client.start(dom);

        await client.undefine(dom);

        expect(await client.state(dom)).toEqual([1, 1]);
        expect(await client.names(8)).toEqual(['a']);
        expect(await refusal(client.undefine(dom))).toEqual([55, 10, -1]);
        expect(await client.connection.call('domainGetAutostart', { dom })).toEqual({ autostart: 0 });
        expect(await refusal(client.connection.call('domainSetAutostart', { dom, autostart: 1 }))).toEqual([
          55, 10, -1,
        ]);
        expect(await refusal(client.define({ name: 'a', uuid: randomUUID() }))).toEqual([9, 20, -1]);
        await client.destroy(dom);
        expect(await refusal(client.lookup('a'))).toEqual(ERR.noDomain);
      });

      it('makes a transient domain persistent again when it is defined', async () => {
        const dom = await client.define({ name: 'a' });
        await client.start(dom);
        await client.undefine(dom);

        await client.define({ name: 'a', uuid: formatUuid(dom.uuid) });
        await client.destroy(dom);

        expect(await client.state(await client.lookup('a'))).toEqual([5, 2]);
      });

      it('keeps the live definition when a running domain is defined again', async () => {
        const uuid = randomUUID();
        const dom = await client.define({ name: 'a', uuid, metadata: '<m xmlns="urn:one"/>' });
        await client.start(dom);

        await client.define({ name: 'a', uuid, metadata: '<m xmlns="urn:two"/>' });

        expect(await client.xml(dom)).toContain('urn:one');
        expect(await client.xml(dom, INACTIVE)).toContain('urn:two');
      });

      it('lists by what the flags say, and counts only when no results are wanted', async () => {
        await client.define({ name: 'off' });
        await client.start(await client.define({ name: 'on' }));
        const transient = await client.define({ name: 'transient' });
        await client.start(transient);
        await client.undefine(transient);

        expect((await client.names(1)).sort()).toEqual(['on', 'transient']);
        expect(await client.names(2)).toEqual(['off']);
        expect((await client.names(4)).sort()).toEqual(['off', 'on']);
        expect(await client.names(8)).toEqual(['transient']);
        expect(await client.names(1 | 4)).toEqual(['on']);
        expect(await client.connection.call('connectListAllDomains', { needResults: 0, flags: 0 })).toEqual({
          domains: [],
          ret: 3,
        });
      });

      it('gives the states of all domains in one call', async () => {
        await client.start(await client.define({ name: 'on' }));
        await client.define({ name: 'off' });

        const { retStats } = await client.connection.call('connectGetAllDomainStats', {
          doms: [],
          stats: 1,
          flags: 0,
        });

        const states = retStats.map(({ dom, params }) => [
          dom.name,
          ...params.map((p) => [p.field, p.value.value]),
        ]);
        expect(states.sort()).toEqual([
          ['off', ['state.state', 5], ['state.reason', 0]],
          ['on', ['state.state', 1], ['state.reason', 1]],
        ]);
      });
    });

    describe('refused starts', () => {
      const started = async (devices: string, sketch = {}): Promise<unknown> => {
        const dom = await client.define({ name: 'a', devices, ...sketch });
        const answer = await refusal(client.start(dom));
        return [answer, await client.state(dom)];
      };
      const FAILED = [5, 6];

      it('says 38 with errno 2 for a missing disk and for a missing backing file', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 1));
        const overlay = await client.createVolume(overlayXml('overlay', base.key));
        await client.deleteVolume(base);

        expect(await started(diskXml(`${daemon.poolPath}/none`))).toEqual([[38, 18, 2], FAILED]);
        await client.undefine(await client.lookup('a'));
        expect(await started(diskXml(overlay.key))).toEqual([[38, 18, 2], FAILED]);
      });

      it('says 38 with errno 2 for a missing read-only disk beside a good one', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 1));

        expect(
          await started(diskXml(base.key) + diskXml(`${daemon.poolPath}/seed`, 'vdb', 'raw', true)),
        ).toEqual([[38, 18, 2], FAILED]);
      });

      it('says 38 with errno 19 for a missing bridge', async () => {
        expect(await started(bridgeXml('nobridge0', MAC))).toEqual([[38, 0, 19], FAILED]);
      });

      it('says 1 for an overlay or a base that is no qcow2', async () => {
        const overlay = await client.createVolume(
          overlayXml('overlay', (await client.createVolume(qcow2VolumeXml('base', 1))).key),
        );
        await client.upload(await client.volume('base'), [new Uint8Array(100)]);
        const hollow = await client.createVolume(rawVolumeXml('hollow', 1000));

        expect(await started(diskXml(hollow.key))).toEqual([ERR.internal, FAILED]);
        await client.undefine(await client.lookup('a'));
        expect(await started(diskXml(overlay.key))).toEqual([ERR.internal, FAILED]);
      });

      it('says 1 for a disk that another running domain writes', async () => {
        const disk = await client.createVolume(qcow2VolumeXml('disk', 1));
        await client.start(await client.define({ name: 'first', devices: diskXml(disk.key) }));

        expect(await started(diskXml(disk.key))).toEqual([ERR.internal, FAILED]);
      });

      it('says 67 for host-passthrough without hardware support', async () => {
        expect(await started('', { cpu: 'host-passthrough' })).toEqual([[67, 10, -1], FAILED]);
      });

      it('says 1 for more memory than the host has', async () => {
        expect(await started('', { memoryMiB: 900_000 })).toEqual([ERR.internal, FAILED]);
      });

      it('runs on when its disks are deleted, and does not start again', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 1));
        const overlay = await client.createVolume(overlayXml('overlay', base.key));
        const dom = await client.define({ name: 'a', devices: diskXml(overlay.key) });
        await client.start(dom);

        await client.deleteVolume(base);
        await client.deleteVolume(overlay);

        expect(await client.state(dom)).toEqual([1, 1]);
        await client.destroy(dom);
        expect(await refusal(client.start(dom))).toEqual([38, 18, 2]);
      });

      it('shows the backing chain of a running disk', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 1));
        const overlay = await client.createVolume(overlayXml('overlay', base.key));
        const dom = await client.define({ name: 'a', devices: diskXml(overlay.key) });

        await client.start(dom);

        expect((await client.xml(dom)).replace(/ index='\d+'/g, '')).toContain(
          [
            "      <backingStore type='file'>",
            "        <format type='qcow2'/>",
            `        <source file='${base.key}'/>`,
            '        <backingStore/>',
            '      </backingStore>',
          ].join('\n'),
        );
      });
    });

    describe('the interfaces of the host', () => {
      const lookup = (name: string) => client.connection.call('interfaceLookupByName', { name });

      it('has the bridge, and says that it is one', async () => {
        const { iface } = await lookup(daemon.bridge);
        const { xml } = await client.connection.call('interfaceGetXmlDesc', { iface, flags: 0 });

        expect(iface).toEqual({
          name: daemon.bridge,
          mac: expect.stringMatching(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/),
        });
        expect(xml).toMatch(new RegExp(`^<interface type='bridge' name='${daemon.bridge}'>`));
      });

      it('has the loopback, which is none', async () => {
        const { iface } = await lookup('lo');
        const { xml } = await client.connection.call('interfaceGetXmlDesc', { iface, flags: 1 });

        expect(xml).toMatch(/^<interface type='ethernet' name='lo'>/);
      });

      it('says 57 for a name that nobody has, however it is written', async () => {
        for (const name of [
          'nobridge0',
          '',
          '.',
          '..',
          `../net/${daemon.bridge}`,
          daemon.bridge.toUpperCase(),
        ]) {
          expect(await refusal(lookup(name))).toEqual([57, 26, -1]);
        }
        const iface = { name: 'nobridge0', mac: '' };
        expect(await refusal(client.connection.call('interfaceGetXmlDesc', { iface, flags: 0 }))).toEqual([
          57, 26, -1,
        ]);
        expect(await refusal(client.connection.call('interfaceGetXmlDesc', { iface, flags: 2 }))).toEqual([
          8, 26, 0,
        ]);
      });
    });

    describe('the guest', () => {
      const addresses = (dom: Awaited<ReturnType<DaemonClient['define']>>, source: number) =>
        client.connection.call('domainInterfaceAddresses', { dom, source, flags: 0 });

      it('is asked for addresses only while it runs: 55', async () => {
        const dom = await client.define({ name: 'a', devices: bridgeXml(daemon.bridge, MAC) });

        expect(await refusal(addresses(dom, 1))).toEqual([55, 20, -1]);
        expect(await refusal(addresses(dom, 2))).toEqual([55, 20, -1]);
      });

      it('has no leases on a bridge of the host', async () => {
        const dom = await client.define({ name: 'a', devices: bridgeXml(daemon.bridge, MAC) });
        await client.start(dom);

        expect(await addresses(dom, 0)).toEqual({ ifaces: [] });
      });

      it('says 74 without an agent channel and 86 while nobody is connected to it', async () => {
        const without = await client.define({ name: 'without' });
        const silent = await client.define({ name: 'silent', devices: AGENT_CHANNEL });
        await client.start(without);
        await client.start(silent);

        expect(await refusal(addresses(without, 1))).toEqual([74, 10, -1]);
        expect(await refusal(addresses(silent, 1))).toEqual([86, 10, -1]);
        expect(await client.xml(silent)).toMatch(/name='org\.qemu\.guest_agent\.0' state='disconnected'/);
      });

      it('takes a response timeout in any state, down to -2', async () => {
        const dom = await client.define({ name: 'a' });
        const set = (timeout: number) =>
          client.connection.call('domainAgentSetResponseTimeout', { dom, timeout, flags: 0 });

        expect(await set(1)).toEqual({ result: 0 });
        expect(await set(-2)).toEqual({ result: 0 });
        expect(await refusal(set(-3))).toEqual([8, 10, -1]);
      });
    });

    describe('volumes', () => {
      it('makes a raw volume of exactly the bytes asked for, sparse', async () => {
        const vol = await client.createVolume(rawVolumeXml('claim', 4_102_444_800));

        expect(vol).toEqual({ pool: daemon.pool, name: 'claim', key: `${daemon.poolPath}/claim` });
        expect(await client.connection.call('storageVolGetInfo', { vol })).toEqual({
          type: 0,
          capacity: 4_102_444_800n,
          allocation: 0n,
        });
        expect(await client.connection.call('storageVolGetPath', { vol })).toEqual({ name: vol.key });
      });

      it('refuses a name that exists: 90', async () => {
        await client.createVolume(rawVolumeXml('a', 1));

        expect(await refusal(client.createVolume(rawVolumeXml('a', 1)))).toEqual([90, 18, -1]);
      });

      it('lets one of many creators win, the others get 90', async () => {
        const answers = await Promise.all(
          Array.from({ length: 10 }, () => refusal(client.createVolume(qcow2VolumeXml('a', 1)))),
        );

        expect(answers.filter((answer) => answer === undefined)).toHaveLength(1);
        expect(answers.filter((answer) => answer?.[0] === 90)).toHaveLength(9);
      });

      it('LV-15: shows format, size and backing of an overlay', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 2));

        const vol = await client.createVolume(
          overlayXml('o', base.key, 'qcow2', "<capacity unit='GiB'>3</capacity>"),
        );

        expect(await client.capacity(vol)).toBe(3n * 1024n ** 3n);
        const xml = await client.volumeXml(vol);
        expect(xml).toContain("    <format type='qcow2'/>\n    <permissions>");
        expect(xml).toContain('    <compat>1.1</compat>\n');
        expect(xml).toContain(
          `  <backingStore>\n    <path>${base.key}</path>\n    <format type='qcow2'/>\n    <permissions>`,
        );
      });

      it('takes the size of an overlay without capacity from what it stands on', async () => {
        const base = await client.createVolume(qcow2VolumeXml('base', 2));
        const raw = await client.createVolume(rawVolumeXml('raw', 10 * 1024 ** 2));

        expect(await client.capacity(await client.createVolume(overlayXml('o', base.key)))).toBe(
          2n * 1024n ** 3n,
        );
        expect(await client.capacity(await client.createVolume(overlayXml('p', raw.key, 'raw')))).toBe(
          10n * 1024n ** 2n,
        );
      });

      it('refuses what it cannot make, and leaves the name free', async () => {
        const raw = await client.createVolume(rawVolumeXml('raw', 1000));
        const broken: [string, string][] = [
          ['no capacity', '<volume><name>x</name></volume>'],
          ['no name', '<volume><capacity>1</capacity></volume>'],
          ['a slash', rawVolumeXml('a/b', 1)],
          ['no XML', '<volume'],
          ['another root', '<vol/>'],
          ['an unknown format', rawVolumeXml('x', 1).replace('raw', 'zzz')],
          ['an unknown unit', "<volume><name>x</name><capacity unit='Q'>1</capacity></volume>"],
          ['a negative capacity', rawVolumeXml('x', -1)],
          ['too large a file', "<volume><name>x</name><capacity unit='PiB'>1</capacity></volume>"],
          ['a missing base', overlayXml('x', `${daemon.poolPath}/none`)],
          ['a base of another format', overlayXml('x', raw.key, 'qcow2', '<capacity>4096</capacity>')],
          [
            'a raw overlay',
            overlayXml('x', raw.key).replace(
              "<format type='qcow2'/><compat>",
              "<format type='raw'/><compat>",
            ),
          ],
        ];

        const answers: [string, unknown][] = [];
        for (const [what, xml] of broken) {
          answers.push([what, await refusal(client.createVolume(xml))]);
        }

        expect(Object.fromEntries(answers)).toEqual({
          'no capacity': [27, 18, -1],
          'no name': [27, 18, -1],
          'a slash': [55, 18, -1],
          'no XML': [35, 18, -1],
          'another root': [27, 5, -1],
          'an unknown format': [67, 18, -1],
          'an unknown unit': [8, 0, -1],
          'a negative capacity': [27, 18, -1],
          'too large a file': [38, 18, 27],
          'a missing base': [38, 18, 2],
          'a base of another format': [1, 0, -1],
          'a raw overlay': [3, 18, -1],
        });
        expect(await refusal(client.createVolume(rawVolumeXml('x', 1)))).toBeUndefined();
      });

      it('says 50 for a volume that is gone, in every call', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 1));
        await client.deleteVolume(vol);

        const answers = await Promise.all([
          refusal(client.deleteVolume(vol)),
          refusal(client.capacity(vol)),
          refusal(client.volumeXml(vol)),
          refusal(client.volume('a')),
          refusal(client.connection.call('storageVolGetPath', { vol })),
          refusal(client.upload(vol, [new Uint8Array(1)])),
          refusal(client.download(vol)),
        ]);

        expect(answers).toEqual(answers.map(() => [50, 18, -1]));
      });

      it('says 49 for a pool nobody knows', async () => {
        expect(await refusal(client.connection.call('storagePoolLookupByName', { name: 'nope' }))).toEqual([
          49, 18, -1,
        ]);
      });

      it('dates a volume by the change of its bytes', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 10));
        const mtime = async () => Number(/<mtime>([\d.]+)</.exec(await client.volumeXml(vol))?.[1]);
        const before = await mtime();

        await client.upload(vol, [new Uint8Array(10)]);

        expect(await mtime()).toBeGreaterThanOrEqual(before);
        expect(Math.abs((await mtime()) * 1000 - Date.now())).toBeLessThan(60_000);
      });

      it('grows a raw volume, and shrinks it only when told to', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 1000));
        const resize = (capacity: bigint, flags: number) =>
          client.connection.call('storageVolResize', { vol, capacity, flags });

        await resize(5000n, 0);
        expect(await client.capacity(vol)).toBe(5000n);
        expect(await refusal(resize(1000n, 0))).toEqual([8, 18, -1]);
      });
    });

    describe('streams', () => {
      it('LV-01: writes chunks of any size where they belong', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 0));
        const chunks = [1, 7, 65_536, 4096, 3, 230_358].map((length, index) =>
          Buffer.alloc(length, index + 1),
        );

        await client.upload(vol, chunks);

        expect((await client.download(vol)).equals(Buffer.concat(chunks))).toBe(true);
        expect(await client.capacity(vol)).toBe(300_001n);
      });

      it('writes and reads a part, and grows past the end', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 1000));

        await client.upload(vol, [Buffer.from('hello')], { offset: 998n, length: 5n });

        expect(await client.capacity(vol)).toBe(1003n);
        expect((await client.download(vol, { offset: 997n, length: 4n })).toString('latin1')).toBe('\0hel');
        expect(await client.download(vol, { offset: 5000n, length: 4n })).toHaveLength(0);
      });

      it('checks no length that is too short, and ends a stream that is too long with 38, errno 28', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 10));

        expect(await refusal(client.upload(vol, [new Uint8Array(5)], { length: 10n }))).toBeUndefined();
        expect(await refusal(client.upload(vol, [new Uint8Array(50)], { length: 10n }))).toEqual([
          38, 38, 28,
        ]);
        expect(await client.capacity(vol)).toBe(10n);
      });

      it('takes the size and format of a qcow2 from its bytes', async () => {
        const source = await client.createVolume(
          overlayXml('o', (await client.createVolume(qcow2VolumeXml('base', 2))).key),
        );
        const image = await client.download(source);
        const vol = await client.createVolume(rawVolumeXml('copy', 1000));

        await client.upload(vol, [image]);

        expect(await client.capacity(vol)).toBe(2n * 1024n ** 3n);
        expect(await client.volumeXml(vol)).toContain("<format type='qcow2'/>");
        expect(await client.volumeXml(vol)).toContain(`<path>${daemon.poolPath}/base</path>`);
      });

      it('lets another client delete a volume that is being uploaded', async () => {
        const vol = await client.createVolume(rawVolumeXml('a', 10));
        const chunks = (async function* () {
          yield new Uint8Array(5);
          await client.deleteVolume(vol);
          yield new Uint8Array(5);
        })();

        await client.connection.upload('storageVolUpload', { vol, offset: 0n, length: 0n, flags: 0 }, chunks);

        expect(await refusal(client.volume('a'))).toEqual([50, 18, -1]);
      });
    });

    describe('pools', () => {
      it('are defined inactive, need their directory to start, and go in the same steps', async () => {
        const xml = `<pool type='dir'><name>p2</name><target><path>${daemon.poolPath}-2</path></target></pool>`;
        const { pool } = await client.connection.call('storagePoolDefineXml', { xml, flags: 0 });
        const call = client.connection.call.bind(client.connection);

        expect(await refusal(call('storagePoolRefresh', { pool, flags: 0 }))).toEqual([55, 18, -1]);
        expect(await refusal(call('storageVolLookupByName', { pool, name: 'x' }))).toEqual([55, 18, -1]);
        expect(await refusal(call('storagePoolCreate', { pool, flags: 0 }))).toEqual([38, 0, 2]);
        await call('storagePoolBuild', { pool, flags: 0 });
        await call('storagePoolCreate', { pool, flags: 0 });
        expect(await call('storagePoolIsActive', { pool })).toEqual({ active: 1 });
        expect(await refusal(call('storagePoolCreate', { pool, flags: 0 }))).toEqual([55, 18, -1]);
        expect(await refusal(call('storagePoolUndefine', { pool }))).toEqual([55, 18, -1]);
        await call('storagePoolDestroy', { pool });
        await call('storagePoolUndefine', { pool });
        expect(await refusal(call('storagePoolUndefine', { pool }))).toEqual([49, 18, -1]);
      });

      it('say how much room they have', async () => {
        const info = await client.connection.call('storagePoolGetInfo', { pool: client.pool });

        expect(info.state).toBe(2);
        expect(info.capacity - info.allocation).toBeGreaterThanOrEqual(info.available);
        expect(info.available).toBeGreaterThan(0n);
        const { xml } = await client.connection.call('storagePoolGetXmlDesc', {
          pool: client.pool,
          flags: 0,
        });
        expect(xml).toContain(`<path>${daemon.poolPath}</path>`);
      });
    });
  });
}
