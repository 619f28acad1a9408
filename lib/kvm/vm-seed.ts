/**
 * The seed of one incarnation. Everything in it comes from the request and the incarnation's identity, createdAt
 * included, so that every creator of the same VM makes the same bytes whenever it runs.
 */
import { createHash } from 'node:crypto';
import { buildSeed } from '../seed/seed.ts';
import { macFromUuid } from './mac-address.ts';
import type { ResolvedRequest } from './resolve-request.ts';

export interface Incarnation {
  readonly uuid: string;
  readonly uid: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** Pure. */
export function buildVmSeed(resolved: ResolvedRequest, incarnation: Incarnation): Uint8Array {
  const { request, prepared } = resolved;
  return buildSeed({
    instanceId: instanceId(request.name, incarnation.uid),
    hostname: request.name,
    userData: prepared.userData,
    vendorData: prepared.vendorData,
    ...(request.networkConfig === undefined ? {} : { networkConfig: request.networkConfig }),
    mac: macFromUuid(incarnation.uuid),
    sshAuthorizedKeys: request.sshAuthorizedKeys ?? [],
    createdAt: new Date(incarnation.createdAt),
  });
}

/**
 * Carries the uid: with the name alone, a VM made anew under an old name would look like a reboot to cloud-init and
 * ignore its new user-data (SD-06). cloud-init names a directory by it, so anything unusual is hashed.
 */
function instanceId(name: string, uid: string): string {
  const tame = /^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/.test(uid);
  return `${name}-${tame ? uid : createHash('sha256').update(uid).digest('hex').slice(0, 32)}`;
}
