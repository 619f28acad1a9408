/** The addresses of a running guest as its two sources tell them: the host's ARP table and the guest's agent. */
import { IP_ADDR_TYPE } from '../../../../lib/libvirt/constants.ts';
import type { DomainInterface } from '../../../../lib/libvirt/objects.ts';
import { interfacesOf } from './domain-devices.ts';
import type { DomainRun } from './domain-store.ts';
import type { HostState } from './host-state.ts';

/** Whether the guest has come up with an address. */
const isOnNetwork = (host: HostState, { guest }: DomainRun): boolean =>
  guest.hasNetwork && host.now() >= guest.bootedAt;

/** Host names of the interfaces, no prefix length: an ARP entry knows neither the guest's names nor its netmask. */
export function arpInterfaces(host: HostState, run: DomainRun): DomainInterface[] {
  if (!isOnNetwork(host, run)) {
    return [];
  }
  return interfacesOf(run.definition.rest).map(({ mac }, index) => ({
    name: run.taps[index] ?? '',
    hwaddr: mac,
    addrs: [{ type: IP_ADDR_TYPE.ipv4, addr: host.leases.lease(mac), prefix: 0 }],
  }));
}

/** The guest's own view: loopback first, link-local addresses among the others. */
export function agentInterfaces(host: HostState, run: DomainRun): DomainInterface[] {
  const loopback = {
    name: 'lo',
    hwaddr: '00:00:00:00:00:00',
    addrs: [
      { type: IP_ADDR_TYPE.ipv4, addr: '127.0.0.1', prefix: 8 },
      { type: IP_ADDR_TYPE.ipv6, addr: '::1', prefix: 128 },
    ],
  };
  const nics = interfacesOf(run.definition.rest).map(({ mac }, index) => ({
    name: `enp${index + 1}s0`,
    hwaddr: mac,
    addrs: isOnNetwork(host, run)
      ? [
          { type: IP_ADDR_TYPE.ipv4, addr: host.leases.lease(mac), prefix: 24 },
          { type: IP_ADDR_TYPE.ipv6, addr: linkLocal(mac), prefix: 64 },
        ]
      : [],
  }));
  return [loopback, ...nics];
}

/** RFC 4291 appendix A: the MAC with its universal bit turned and ff:fe in the middle. */
function linkLocal(mac: string): string {
  const [first = '00', ...rest] = mac.split(':');
  const turned = (Number.parseInt(first, 16) ^ 2).toString(16).padStart(2, '0');
  const [b = '', c = '', d = '', e = '', f = ''] = rest;
  const groups = [`${turned}${b}`, `${c}ff`, `fe${d}`, `${e}${f}`];
  return `fe80::${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}`;
}
