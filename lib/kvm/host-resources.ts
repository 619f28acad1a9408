/**
 * libvirt reports "no space" and "no memory" from its helper programs as internal errors (code 1), told apart only by
 * a text that is not for matching. So the host is asked what it has left.
 */
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { StoragePoolHandle } from '../libvirt/objects.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { hasCode } from './error-classification.ts';
import type { HostSession } from './host-session.ts';

const BYTES_PER_MIB = 1_048_576n;
/** Below this a pool counts as full whatever is asked for: an overlay's own header must fit. */
const POOL_RESERVE_BYTES = BYTES_PER_MIB;

export interface Needs {
  readonly pool?: StoragePoolHandle;
  readonly neededBytes?: bigint;
  readonly memoryMiB?: number;
}

/** The error to throw for a refused volume create or start: `exhausted` where the host has no room, else the same. */
export async function refineRefusal(session: HostSession, error: unknown, needs: Needs): Promise<unknown> {
  if (!hasCode(error, ERROR_CODE.internalError)) return error;
  const { host } = session;
  if (needs.pool !== undefined) {
    const { available } = await session.call('storagePoolGetInfo', { pool: needs.pool });
    if (available < (needs.neededBytes ?? 0n) + POOL_RESERVE_BYTES) {
      return new ProviderError('exhausted', `pool ${host.pool} on host ${host.name} is full`, {
        cause: error,
      });
    }
  }
  if (needs.memoryMiB !== undefined) {
    const { freeMem } = await session.call('nodeGetFreeMemory', undefined);
    if (freeMem < BigInt(needs.memoryMiB) * BYTES_PER_MIB) {
      return new ProviderError(
        'exhausted',
        `host ${host.name} has not ${needs.memoryMiB} MiB of memory free`,
        {
          cause: error,
        },
      );
    }
  }
  return error;
}
