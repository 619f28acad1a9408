/**
 * Domain XML: the one definition a VM ever gets, and what is read back of a domain.
 *
 * Disks are `type='file'` with host paths rather than pool and volume names: libvirt's AppArmor helper grants QEMU
 * only sources that carry a path, so a volume reference fails to start on every confined host. The paths need not
 * exist yet: the domain is defined first and its volumes follow. The seed is a read-only virtio disk and not a cdrom,
 * because cloud kernels are built without AHCI and would never see it (SD-01).
 */

import {
  buildXml,
  childrenOf,
  elementAt,
  parseXml,
  textAt,
  type XmlElement,
  XmlError,
  type XmlInput,
} from '../libvirt/xml-tree.ts';
import type { Metadata } from './metadata.ts';
import { parseMetadata } from './parse-metadata.ts';
import type { KvmHost, MachineType } from './provider-options.ts';

export interface DomainSpec {
  readonly name: string;
  readonly uuid: string;
  readonly mac: string;
  readonly host: KvmHost;
  readonly machineType: MachineType;
  readonly diskPath: string;
  readonly seedPath: string;
  readonly metadata: readonly XmlInput[];
}

/** What is known of a domain from its XML. */
export interface DomainDescription {
  readonly name: string;
  readonly uuid: string;
  /** Lower case. */
  readonly macs: readonly string[];
  readonly metadata: Metadata;
}

const AGENT_CHANNEL = 'org.qemu.guest_agent.0';

/** Pure: takes resolved values. */
export function buildDomainXml(spec: DomainSpec): string {
  const { host, machineType } = spec;
  return buildXml({
    tag: 'domain',
    attributes: { type: host.virtType },
    children: [
      { tag: 'name', text: spec.name },
      { tag: 'uuid', text: spec.uuid },
      { tag: 'metadata', children: spec.metadata },
      { tag: 'memory', attributes: { unit: 'MiB' }, text: machineType.memoryMiB },
      { tag: 'vcpu', text: machineType.vcpus },
      {
        tag: 'os',
        children: [
          { tag: 'type', attributes: { arch: 'x86_64', machine: 'q35' }, text: 'hvm' },
          { tag: 'boot', attributes: { dev: 'hd' } },
        ],
      },
      { tag: 'features', children: [{ tag: 'acpi' }, { tag: 'apic' }] },
      // An emulated host has no CPU to pass through: libvirt refuses the define.
      { tag: 'cpu', attributes: { mode: host.virtType === 'kvm' ? 'host-passthrough' : 'maximum' } },
      { tag: 'clock', attributes: { offset: 'utc' } },
      { tag: 'on_poweroff', text: 'destroy' },
      { tag: 'on_reboot', text: 'restart' },
      { tag: 'on_crash', text: 'destroy' },
      { tag: 'devices', children: devices(spec) },
    ],
  });
}

function devices(spec: DomainSpec): XmlInput[] {
  const disk = (format: string, path: string, target: string, readOnly: boolean): XmlInput => ({
    tag: 'disk',
    attributes: { type: 'file', device: 'disk' },
    children: [
      { tag: 'driver', attributes: { name: 'qemu', type: format } },
      { tag: 'source', attributes: { file: path } },
      { tag: 'target', attributes: { dev: target, bus: 'virtio' } },
      readOnly ? { tag: 'readonly' } : null,
    ],
  });
  return [
    disk('qcow2', spec.diskPath, 'vda', false),
    disk('raw', spec.seedPath, 'vdb', true),
    {
      tag: 'interface',
      attributes: { type: 'bridge' },
      children: [
        { tag: 'mac', attributes: { address: spec.mac } },
        { tag: 'source', attributes: { bridge: spec.host.bridge } },
        { tag: 'model', attributes: { type: 'virtio' } },
      ],
    },
    { tag: 'serial', attributes: { type: 'pty' }, children: [{ tag: 'target', attributes: { port: 0 } }] },
    {
      tag: 'console',
      attributes: { type: 'pty' },
      children: [{ tag: 'target', attributes: { type: 'serial', port: 0 } }],
    },
    {
      tag: 'channel',
      attributes: { type: 'unix' },
      children: [{ tag: 'target', attributes: { type: 'virtio', name: AGENT_CHANNEL } }],
    },
    {
      tag: 'rng',
      attributes: { model: 'virtio' },
      children: [{ tag: 'backend', attributes: { model: 'random' }, text: '/dev/urandom' }],
    },
  ];
}

/**
 * What the provider reads of a domain. The devices, two thirds of the text, are read only when their MACs are asked
 * for: a list of a thousand domains spends its time here.
 * @throws XmlError when the text is no domain. Metadata that cannot be read is as if absent.
 */
export function parseDomainXml(xml: string): DomainDescription {
  const domain = parseBeginning(xml);
  const name = textAt(domain, 'name');
  const uuid = textAt(domain, 'uuid');
  if (domain.name !== 'domain' || name === null || uuid === null) throw new XmlError('not a domain');
  return {
    name,
    uuid,
    get macs() {
      return parseMacs(xml);
    },
    metadata: parseMetadata(elementAt(domain, 'metadata')),
  };
}

/** The end of the metadata as libvirt writes it: the indentation of a domain's own children and no other's. */
const METADATA_END = '\n  </metadata>\n';

/**
 * The document up to the end of its metadata. Text within them cannot hold a tag, and where a comment or a CDATA
 * section of a foreign element imitates the end, what was cut off does not parse: then the whole is read.
 */
function parseBeginning(xml: string): XmlElement {
  const end = xml.indexOf(METADATA_END);
  if (end >= 0) {
    try {
      return parseXml(`${xml.slice(0, end + METADATA_END.length)}</domain>`);
    } catch (error) {
      if (!(error instanceof XmlError)) throw error;
    }
  }
  return parseXml(xml);
}

function parseMacs(xml: string): string[] {
  const devices = elementAt(parseXml(xml), 'devices');
  return (devices === null ? [] : childrenOf(devices, 'interface')).flatMap((nic) => {
    const address = elementAt(nic, 'mac')?.attributes['address'];
    return address === undefined ? [] : [address.toLowerCase()];
  });
}
