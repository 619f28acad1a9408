/**
 * A VM's MAC follows from its UUID, so that every worker that rebuilds the seed (whose network-config may name the
 * MAC) writes the same bytes without reading the domain first.
 */
import { createHash } from 'node:crypto';

/** The four first octets with "locally administered" set and "group" clear, whose low nibble says nothing else. */
const LOCAL_UNICAST = [0x02, 0x06, 0x0a, 0x0e] as const;

/** Lower case, colon separated; 42 bits of the hash, so a collision on one bridge is not to be expected. */
export function macFromUuid(uuid: string): string {
  const digest = createHash('sha256').update(`mac:${uuid}`).digest();
  const first = LOCAL_UNICAST[(digest[0] ?? 0) % LOCAL_UNICAST.length] ?? LOCAL_UNICAST[0];
  return [first, ...digest.subarray(1, 6)].map((octet) => octet.toString(16).padStart(2, '0')).join(':');
}
