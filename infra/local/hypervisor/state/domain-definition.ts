/**
 * A domain's definition as libvirt keeps it: what was sent, checked and completed. Completed is only what somebody reads
 * back (sizes in KiB, MAC addresses, the machine's version, the emulator); controllers, PCI addresses and other devices
 * that a real QEMU driver invents are left out.
 */
import { randomUUID } from 'node:crypto';
import {
  configUnsupported,
  DaemonError,
  ERROR_DOMAIN,
  internalError,
  xmlError,
} from '../daemon/daemon-error.ts';
import { devicesFrom } from './domain-devices.ts';
import { type MetadataElement, readMetadata } from './domain-metadata.ts';
import { bytesOf, parseRoot } from './xml-input.ts';
import { formatLibvirtXml } from './xml-text.ts';
import { attribute, childElements, element, find, isElement, textOf, type XmlElement } from './xml-tree.ts';

export interface DomainDefinition {
  readonly virtType: string;
  readonly name: string;
  /** Lower case, hyphenated. */
  readonly uuid: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly metadata: readonly MetadataElement[];
  readonly memoryKiB: bigint;
  readonly vcpus: number;
  readonly cpuMode: string | undefined;
  /** Everything below `domain` that has no field above, in order. */
  readonly rest: readonly XmlElement[];
}

/** What defining depends on besides the XML. */
export interface DefineContext {
  readonly virtTypes: readonly string[];
}

const MACHINES: Readonly<Record<string, string>> = { q35: 'pc-q35-7.2', pc: 'pc-i440fx-7.2' };
const OWN_FIELDS = ['name', 'uuid', 'title', 'description', 'metadata', 'memory', 'currentMemory', 'vcpu'];

/** @throws DaemonError with the code libvirt's own parser gives. */
export function parseDomainDefinition(xml: string, { virtTypes }: DefineContext): DomainDefinition {
  const root = parseRoot(xml, {
    root: 'domain',
    source: '(domain_definition)',
    domain: ERROR_DOMAIN.domain,
  });
  const virtType = attribute(root, 'type') ?? '';
  const name = textOf(find(root, 'name'))?.trim() ?? '';
  const uuid = textOf(find(root, 'uuid'))?.trim();
  if (!['qemu', 'kvm', 'xen', 'lxc', 'test'].includes(virtType)) {
    throw configUnsupported(ERROR_DOMAIN.domain, `invalid domain type ${virtType}`);
  }
  if (name === '') {
    throw new DaemonError({ code: 21, domain: ERROR_DOMAIN.domain, message: 'missing name information' });
  }
  if (name.includes('/')) {
    throw xmlError(ERROR_DOMAIN.domain, `name ${name} cannot contain '/'`);
  }
  if (uuid !== undefined && !/^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i.test(uuid)) {
    throw internalError(ERROR_DOMAIN.domain, 'malformed uuid element');
  }
  if (!find(root, 'os/type')) {
    throw xmlError(ERROR_DOMAIN.domain, 'an os <type> must be specified');
  }
  const memoryKiB = memoryOf(root);
  if (!virtTypes.includes(virtType)) {
    throw configUnsupported(
      ERROR_DOMAIN.qemu,
      `Emulator '/usr/bin/qemu-system-x86_64' does not support virt type '${virtType}'`,
    );
  }
  const metadata = find(root, 'metadata');
  return {
    virtType,
    name,
    uuid: canonicalUuid(uuid ?? randomUUID()),
    title: textOf(find(root, 'title')),
    description: textOf(find(root, 'description')),
    metadata: metadata ? readMetadata(metadata, [root]) : [],
    memoryKiB,
    vcpus: vcpusOf(root),
    cpuMode: attribute(find(root, 'cpu'), 'mode'),
    rest: root.children
      .filter(isElement)
      .filter((child) => !OWN_FIELDS.includes(child.name))
      .map((child) => completed(child)),
  };
}

/** The definition as libvirt prints it. `id` and `devices` are those of a running domain, if it is the live one. */
export function formatDomainDefinition(
  definition: DomainDefinition,
  live?: { readonly id: number; readonly devices: XmlElement },
): string {
  const { metadata, rest } = definition;
  const devices = live?.devices;
  return formatLibvirtXml(
    element(
      'domain',
      { type: definition.virtType, ...(live && { id: String(live.id) }) },
      element('name', {}, definition.name),
      element('uuid', {}, definition.uuid),
      ...(definition.title === undefined ? [] : [element('title', {}, definition.title)]),
      ...(definition.description === undefined ? [] : [element('description', {}, definition.description)]),
      ...(metadata.length === 0 ? [] : [element('metadata', {}, ...metadata.map((entry) => entry.element))]),
      element('memory', { unit: 'KiB' }, String(definition.memoryKiB)),
      element('currentMemory', { unit: 'KiB' }, String(definition.memoryKiB)),
      element('vcpu', { placement: 'static' }, String(definition.vcpus)),
      ...rest.map((child) => (devices && child.name === 'devices' ? devices : child)),
    ),
  );
}

const canonicalUuid = (uuid: string): string => {
  const hex = uuid.replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
};

function memoryOf(root: XmlElement): bigint {
  const size = find(root, 'memory');
  const bytes = size && bytesOf(size, 'KiB');
  if (!bytes) {
    throw xmlError(
      ERROR_DOMAIN.domain,
      'Memory size must be specified via <memory> or in the <numa> configuration',
    );
  }
  return (bytes + 1023n) / 1024n;
}

function vcpusOf(root: XmlElement): number {
  const count = Number(textOf(find(root, 'vcpu'))?.trim() ?? '1');
  if (!Number.isInteger(count) || count < 1) {
    throw internalError(ERROR_DOMAIN.domain, 'CPU IDs in <numa> exceed the <vcpu> count');
  }
  return count;
}

function completed(child: XmlElement): XmlElement {
  switch (child.name) {
    case 'os':
      return {
        ...child,
        children: childElements(child).map((part) => (part.name === 'type' ? completedOsType(part) : part)),
      };
    case 'cpu':
      return element('cpu', { ...Object.fromEntries(child.attributes), check: 'none' }, ...child.children);
    case 'devices':
      return devicesFrom(child);
    default:
      return child;
  }
}

function completedOsType(type: XmlElement): XmlElement {
  const arch = attribute(type, 'arch') ?? 'x86_64';
  if (arch !== 'x86_64') {
    throw configUnsupported(ERROR_DOMAIN.domain, `Unknown architecture ${arch}`);
  }
  const machine = attribute(type, 'machine') ?? 'pc';
  return element('type', { arch, machine: MACHINES[machine] ?? machine }, ...type.children);
}
