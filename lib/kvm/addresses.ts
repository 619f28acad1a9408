/**
 * The addresses of a running VM. Only those on the NIC that the domain XML defines, matched by MAC, so that docker0 or
 * a tunnel inside the guest is never taken for it (LV-12); never loopback or link-local. The agent is asked first:
 * ARP entries outlive the lease they came from.
 */
import { isIP, isIPv4 } from 'node:net';
import { INTERFACE_ADDRESSES_SRC } from '../libvirt/constants.ts';
import { LibvirtError, LibvirtTimeoutError } from '../libvirt/errors.ts';
import type { DomainHandle, DomainInterface } from '../libvirt/objects.ts';
import type { InstanceAddress } from '../provider/instance.ts';
import { limitAgentWait } from './agent-command.ts';
import type { HostSession } from './host-session.ts';

/** The agent's own limit and one round trip. */
const AGENT_CALL_LIMIT_MS = 4_000;

export interface SeenAddresses {
  /** IPv4 first. Empty while no source knows one. */
  readonly addresses: readonly InstanceAddress[];
  /** The agent answered, and may be asked more in this session: its waits are limited. */
  readonly hasAgent: boolean;
}

/**
 * Both sources fail routinely in a guest that is still booting.
 *
 * @throws only what ends the session; that the guest has no address yet is no error.
 */
export async function seeAddresses(
  session: HostSession,
  handle: DomainHandle,
  macs: readonly string[],
): Promise<SeenAddresses> {
  const fromAgent = await unlessRefused(async () => {
    await limitAgentWait(session, handle);
    return ask(session, handle, 'agent');
  });
  const hasAgent = fromAgent !== null;
  const seen = chooseAddresses(fromAgent ?? [], macs, 'agent');
  if (seen.length > 0) return { addresses: seen, hasAgent };
  const fromArp = await unlessRefused(() => ask(session, handle, 'arp'));
  return { addresses: chooseAddresses(fromArp ?? [], macs, 'arp'), hasAgent };
}

/** Pure; exported for its tests. */
export function chooseAddresses(
  interfaces: readonly DomainInterface[],
  macs: readonly string[],
  source: InstanceAddress['source'],
): readonly InstanceAddress[] {
  const found = interfaces.flatMap(({ hwaddr, addrs }): InstanceAddress[] => {
    const mac = hwaddr?.toLowerCase();
    if (mac === undefined || !macs.includes(mac)) return [];
    return addrs
      .filter(({ addr }) => isReachable(addr))
      .map(({ addr }) => ({ address: addr, family: isIPv4(addr) ? 'ipv4' : 'ipv6', mac, source }));
  });
  return [
    ...found.filter(({ family }) => family === 'ipv4'),
    ...found.filter(({ family }) => family === 'ipv6'),
  ];
}

async function ask(
  session: HostSession,
  dom: DomainHandle,
  source: 'agent' | 'arp',
): Promise<DomainInterface[]> {
  const args = { dom, source: INTERFACE_ADDRESSES_SRC[source], flags: 0 };
  return (await session.call('domainInterfaceAddresses', args, { timeoutMs: AGENT_CALL_LIMIT_MS })).ifaces;
}

async function unlessRefused(read: () => Promise<DomainInterface[]>): Promise<DomainInterface[] | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof LibvirtError || error instanceof LibvirtTimeoutError) return null;
    throw error;
  }
}

const LINK_LOCAL_V6 = /^fe[89ab][0-9a-f]:/i;

function isReachable(address: string): boolean {
  if (isIP(address) === 0) return false;
  if (isIPv4(address)) return !/^(127\.|169\.254\.|0\.0\.0\.0$)/.test(address);
  return address !== '::1' && address !== '::' && !LINK_LOCAL_V6.test(address);
}
