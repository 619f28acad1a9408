/**
 * IPv4 networks as the configuration writes them. Only what the rules need: is it well formed, does it contain an
 * address, do two overlap. IPv6 is left out because VPN routes and the VPC are IPv4.
 */
import { BlockList, isIPv4 } from 'node:net';

export interface Ipv4Cidr {
  readonly network: string;
  readonly prefix: number;
}

/** The network written as `a.b.c.d/n`; null when malformed or when host bits are set (AWS refuses such routes). */
export function parseIpv4Cidr(text: string): Ipv4Cidr | null {
  const [network = '', bits = '', ...rest] = text.split('/');
  if (rest.length > 0 || !isIPv4(network) || !/^(?:[0-9]|[12][0-9]|3[0-2])$/.test(bits)) return null;
  const prefix = Number(bits);
  const hostBits = toNumber(network) % 2 ** (32 - prefix);
  return hostBits === 0 ? { network, prefix } : null;
}

export function cidrContains(cidr: Ipv4Cidr, address: string): boolean {
  if (!isIPv4(address)) return false;
  const block = new BlockList();
  block.addSubnet(cidr.network, cidr.prefix, 'ipv4');
  return block.check(address, 'ipv4');
}

/** Two networks overlap only when one contains the other. */
export function cidrsOverlap(a: Ipv4Cidr, b: Ipv4Cidr): boolean {
  return cidrContains(a, b.network) || cidrContains(b, a.network);
}

function toNumber(address: string): number {
  return address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
}
