import { describe, expect, it } from 'vitest';
import { buildDomainXml, type DomainSpec, parseDomainXml } from '../../../lib/kvm/domain-xml.ts';
import { childrenOf, elementAt, parseXml, XmlError } from '../../../lib/libvirt/xml-tree.ts';

const SPEC: DomainSpec = {
  name: 'vm-1',
  uuid: '11111111-2222-4333-8444-555555555555',
  mac: '02:00:00:aa:bb:01',
  host: { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' },
  machineType: { vcpus: 2, memoryMiB: 1024 },
  diskPath: '/pool/a & b.disk',
  seedPath: '/pool/seed',
  metadata: [],
};

describe('buildDomainXml', () => {
  it('SD-01 LV-15: attaches disk and seed as virtio files by path, the seed read-only', () => {
    const devices = elementAt(parseXml(buildDomainXml(SPEC)), 'devices');

    const disks = devices === null ? [] : childrenOf(devices, 'disk');

    expect(disks.map((disk) => disk.attributes['type'])).toEqual(['file', 'file']);
    expect(disks.map((disk) => elementAt(disk, 'target')?.attributes)).toEqual([
      { dev: 'vda', bus: 'virtio' },
      { dev: 'vdb', bus: 'virtio' },
    ]);
    expect(disks.map((disk) => elementAt(disk, 'source')?.attributes['file'])).toEqual([
      SPEC.diskPath,
      SPEC.seedPath,
    ]);
    expect(disks.map((disk) => elementAt(disk, 'readonly') !== null)).toEqual([false, true]);
  });

  it('SD-02: is a q35 machine without an IDE or SATA device', () => {
    const xml = buildDomainXml(SPEC);

    expect(elementAt(parseXml(xml), 'os', 'type')?.attributes['machine']).toBe('q35');
    expect(xml).not.toMatch(/bus="(ide|sata)"|type="ide"/);
  });

  it('passes the host CPU through under KVM and names none an emulated host would refuse', () => {
    const cpuOf = (virtType: 'kvm' | 'qemu') =>
      elementAt(parseXml(buildDomainXml({ ...SPEC, host: { ...SPEC.host, virtType } })), 'cpu')?.attributes[
        'mode'
      ];

    expect([cpuOf('kvm'), cpuOf('qemu')]).toEqual(['host-passthrough', 'maximum']);
  });
});

describe('parseDomainXml', () => {
  it('LV-21: reads one NIC and several alike, MACs in lower case', () => {
    const nic = (mac: string) => `<interface type='bridge'><mac address='${mac}'/></interface>`;
    const xml = (nics: string) => `<domain><name>a</name><uuid>u</uuid><devices>${nics}</devices></domain>`;

    expect(parseDomainXml(xml(nic('52:54:00:AA:BB:01'))).macs).toEqual(['52:54:00:aa:bb:01']);
    expect(parseDomainXml(xml(nic('52:54:00:AA:BB:01') + nic('52:54:00:aa:bb:02'))).macs).toHaveLength(2);
    expect(parseDomainXml(xml('')).macs).toEqual([]);
  });

  it.each(['<pool><name>a</name><uuid>u</uuid></pool>', '<domain><name>a</name></domain>'])(
    'refuses %s',
    (xml) => {
      expect(() => parseDomainXml(xml)).toThrow(XmlError);
    },
  );

  describe('of a domain as libvirt writes it', () => {
    const written = (metadata: string, devices = '') =>
      `<domain type='qemu'>\n  <name>a</name>\n  <uuid>u</uuid>\n  <metadata>\n${metadata}\n  </metadata>\n` +
      `  <devices>\n${devices}\n  </devices>\n</domain>\n`;
    const labels = (role: string) =>
      `    <l:labels xmlns:l="urn:kvm-functions:metadata:labels:1"><l:label key="role" value="${role}"/></l:labels>`;

    it.each([
      ['a comment', '<!--\n  </metadata>\n-->'],
      ['a CDATA section', '<![CDATA[\n  </metadata>\n]]>'],
    ])('is not taken in by the end of the metadata in %s of somebody else’s', (_, imitation) => {
      const xml = written(`    <x:note xmlns:x="urn:example:x">${imitation}</x:note>\n${labels('proxy')}`);

      expect(parseDomainXml(xml).metadata.labels).toEqual({ role: 'proxy' });
    });

    it('takes the metadata of the domain, not an element of that name within them', () => {
      const inner = `    <metadata xmlns="urn:example:x">\n${labels('inner')}\n    </metadata>`;

      expect(parseDomainXml(written(`${inner}\n${labels('outer')}`)).metadata.labels).toEqual({
        role: 'outer',
      });
    });

    it('reads the MACs behind the metadata when they are asked for', () => {
      const nic = `<interface type='bridge'><mac address='52:54:00:AA:BB:01'/></interface>`;

      expect(parseDomainXml(written(labels('proxy'), nic)).macs).toEqual(['52:54:00:aa:bb:01']);
    });
  });
});
