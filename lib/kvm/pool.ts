/** The storage pool that a host's VMs live in. */
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { StoragePoolHandle } from '../libvirt/objects.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { hasCode } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { parsePoolXml } from './volume-xml.ts';

/** Pools whose volumes are files below one directory: only there is a volume's path known before it exists. */
export const FILE_POOL_TYPES: readonly string[] = ['dir', 'fs', 'netfs'];

export interface Pool {
  readonly handle: StoragePoolHandle;
  readonly targetPath: string;
}

/** @throws ProviderError `permanent` when there is no such pool or it is not made of files. */
export async function openPool(session: HostSession): Promise<Pool> {
  const { pool: name } = session.host;
  const handle = await findPool(session);
  if (handle === null)
    throw new ProviderError('permanent', `host ${session.host.name} has no storage pool ${name}`);
  const { xml } = await session.call('storagePoolGetXmlDesc', { pool: handle, flags: 0 });
  const { type, targetPath } = parsePoolXml(xml);
  if (!FILE_POOL_TYPES.includes(type) || targetPath === null) {
    throw new ProviderError(
      'permanent',
      `pool ${name} on host ${session.host.name} is of type ${type}; one of ${FILE_POOL_TYPES.join(', ')} is needed`,
    );
  }
  return { handle, targetPath };
}

/** Null when the host has no such pool: to a delete that means there is nothing left, not a failure. */
export async function findPool(session: HostSession): Promise<StoragePoolHandle | null> {
  try {
    return (await session.call('storagePoolLookupByName', { name: session.host.pool })).pool;
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noStoragePool)) return null;
    throw error;
  }
}
