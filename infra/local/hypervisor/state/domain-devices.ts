/**
 * The devices of a domain that this daemon acts on: disks, interfaces and the guest agent's channel. In the live XML they
 * show what starting them added, since that is where clients look for it.
 */
import { randomBytes } from 'node:crypto';
import { configUnsupported, DaemonError, ERROR_DOMAIN, xmlError } from '../daemon/daemon-error.ts';
import { attribute, childElements, element, find, type XmlElement } from './xml-tree.ts';

const GUEST_AGENT = 'org.qemu.guest_agent.0';
const EMULATOR = '/usr/bin/qemu-system-x86_64';

export interface Disk {
  /** Host path; undefined for an empty drive or a source that is no file. */
  readonly path: string | undefined;
  readonly format: string;
  readonly target: string;
  readonly isReadOnly: boolean;
}

export interface Interface {
  /** Lower case. */
  readonly mac: string;
  readonly bridge: string | undefined;
}

/** The devices as they are kept. @throws DaemonError for what libvirt refuses at define. */
export function devicesFrom(devices: XmlElement): XmlElement {
  const kept = childElements(devices).map((device) =>
    device.name === 'interface' ? completedInterface(device) : device,
  );
  const disks = kept.filter((device) => device.name === 'disk');
  checkDisks(disks);
  return element(
    'devices',
    {},
    ...(kept.some((device) => device.name === 'emulator') ? [] : [element('emulator', {}, EMULATOR)]),
    ...kept,
  );
}

export const disksOf = (rest: readonly XmlElement[]): Disk[] =>
  devices(rest, 'disk').map((disk) => ({
    path: attribute(find(disk, 'source'), 'file'),
    format: attribute(find(disk, 'driver'), 'type') ?? 'raw',
    target: attribute(find(disk, 'target'), 'dev') ?? '',
    isReadOnly: find(disk, 'readonly') !== undefined || attribute(disk, 'device') === 'cdrom',
  }));

export const interfacesOf = (rest: readonly XmlElement[]): Interface[] =>
  devices(rest, 'interface').map((nic) => ({
    mac: attribute(find(nic, 'mac'), 'address') ?? '',
    bridge: attribute(find(nic, 'source'), 'bridge'),
  }));

export const hasAgentChannel = (rest: readonly XmlElement[]): boolean =>
  devices(rest, 'channel').some((channel) => isAgentChannel(channel));

/** What starting adds. `backing` gives the backing files of a disk's path, nearest first. */
export function liveDevices(
  rest: readonly XmlElement[],
  run: {
    readonly id: number;
    readonly name: string;
    readonly tap: (index: number) => string;
    readonly agentConnected: boolean;
    readonly backing: (path: string) => readonly { path: string; format: string }[];
  },
): XmlElement {
  const all = find(element('domain', {}, ...rest), 'devices');
  let interfaces = 0;
  return element(
    'devices',
    {},
    ...childElements(all ?? element('devices')).map((device) => {
      switch (device.name) {
        case 'disk':
          return liveDisk(device, run.backing);
        case 'interface':
          return withChild(device, element('target', { dev: run.tap(interfaces++) }), 'source');
        case 'channel':
          return isAgentChannel(device) ? liveChannel(run) : device;
        default:
          return device;
      }
    }),
  );
}

const devices = (rest: readonly XmlElement[], name: string): XmlElement[] =>
  rest.filter((child) => child.name === 'devices').flatMap((child) => childElements(child, name));

const isAgentChannel = (channel: XmlElement): boolean =>
  attribute(find(channel, 'target'), 'name') === GUEST_AGENT;

function completedInterface(nic: XmlElement): XmlElement {
  const type = attribute(nic, 'type') ?? '';
  if (!['bridge', 'network', 'user', 'ethernet', 'direct'].includes(type)) {
    throw xmlError(ERROR_DOMAIN.xml, `Invalid value for attribute 'type' in element 'interface': '${type}'.`);
  }
  if (type === 'bridge' && !attribute(find(nic, 'source'), 'bridge')) {
    throw xmlError(ERROR_DOMAIN.domain, "interface type='bridge' requires a 'source' element");
  }
  const given = attribute(find(nic, 'mac'), 'address');
  if (given !== undefined && !/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(given)) {
    throw xmlError(ERROR_DOMAIN.domain, `unable to parse mac address '${given}'`);
  }
  if (given !== undefined && Number.parseInt(given.slice(0, 2), 16) % 2 === 1) {
    throw xmlError(ERROR_DOMAIN.domain, `expected unicast mac address, found multicast '${given}'`);
  }
  const mac = element('mac', { address: (given ?? randomMac()).toLowerCase() });
  return { ...nic, children: [mac, ...childElements(nic).filter((child) => child.name !== 'mac')] };
}

function checkDisks(disks: readonly XmlElement[]): void {
  const seen = new Map<string, string>();
  for (const disk of disks) {
    const source = attribute(find(disk, 'source'), 'file') ?? '';
    const target = attribute(find(disk, 'target'), 'dev');
    if (!target) {
      throw new DaemonError({
        code: 20,
        domain: ERROR_DOMAIN.domain,
        message: `missing target information for device ${source}`,
      });
    }
    if (attribute(find(disk, 'target'), 'bus') === 'ide') {
      throw configUnsupported(
        ERROR_DOMAIN.qemu,
        'IDE controllers are unsupported for this QEMU binary or machine type',
      );
    }
    const other = seen.get(target);
    if (other !== undefined) {
      throw xmlError(
        ERROR_DOMAIN.domain,
        `target '${target}' duplicated for disk sources '${other}' and '${source}'`,
      );
    }
    seen.set(target, source);
  }
}

function liveDisk(
  disk: XmlElement,
  backing: (path: string) => readonly { path: string; format: string }[],
): XmlElement {
  const path = attribute(find(disk, 'source'), 'file');
  const chain = path === undefined ? [] : backing(path);
  const store = [...chain]
    .reverse()
    .reduce(
      (inner, { path: file, format }) =>
        element(
          'backingStore',
          { type: 'file' },
          element('format', { type: format }),
          element('source', { file }),
          inner,
        ),
      element('backingStore'),
    );
  return withChild(disk, store, 'source');
}

const liveChannel = (run: { id: number; name: string; agentConnected: boolean }): XmlElement =>
  element(
    'channel',
    { type: 'unix' },
    element('source', {
      mode: 'bind',
      path: `/var/lib/libvirt/qemu/channel/target/domain-${run.id}-${run.name}/${GUEST_AGENT}`,
    }),
    element('target', {
      type: 'virtio',
      name: GUEST_AGENT,
      state: run.agentConnected ? 'connected' : 'disconnected',
    }),
  );

/** Puts `added` behind the child called `after`, replacing one of its own name. */
function withChild(parent: XmlElement, added: XmlElement, after: string): XmlElement {
  const children = childElements(parent).filter((child) => child.name !== added.name);
  const at = children.findIndex((child) => child.name === after);
  return { ...parent, children: [...children.slice(0, at + 1), added, ...children.slice(at + 1)] };
}

/** A locally administered unicast address below QEMU's own prefix. */
const randomMac = (): string => `52:54:00:${randomBytes(3).toString('hex').match(/../g)?.join(':')}`;
