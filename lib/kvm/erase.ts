/**
 * Erase last: the domain goes after its volumes, so that a delete that was cut off can always be found and finished.
 * The order is the one of which no racing start left a running VM behind a success (facts in docs/architecture.md):
 * destroy, volumes, destroy again, undefine, look, volumes once more.
 */
import {
  DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
  DOMAIN_UNDEFINE_MANAGED_SAVE,
  DOMAIN_UNDEFINE_NVRAM,
  DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
  DOMAIN_UNDEFINE_TPM,
} from '../libvirt/constants.ts';
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { DomainHandle } from '../libvirt/objects.ts';
import { parseUuid } from '../libvirt/uuid.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { hasCode } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { findPool } from './pool.ts';
import { together } from './together.ts';
import type { VolumeOwner } from './volume-names.ts';
import { deleteVolumes } from './volumes.ts';

/** All that libvirt may keep beside a definition, newest flags first to go: older daemons refuse what they do not know. */
const UNDEFINE_BASE =
  DOMAIN_UNDEFINE_MANAGED_SAVE | DOMAIN_UNDEFINE_SNAPSHOTS_METADATA | DOMAIN_UNDEFINE_NVRAM;
const UNDEFINE_FLAGS: readonly number[] = [
  UNDEFINE_BASE | DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | DOMAIN_UNDEFINE_TPM,
  UNDEFINE_BASE | DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
  UNDEFINE_BASE,
];

/** A racing start can make the domain a running transient one; each round ends one such start. */
const ROUNDS = 10;

/**
 * Leaves no domain of this UUID and no volume of it. Safe to repeat and beside another one of the same VM. The caller
 * has made sure that the VM is ours and, unless it is gone already, marked it `deleting`.
 *
 * @throws LibvirtError when the domain cannot be destroyed (38, 68): QEMU may still write, so the volumes stay.
 */
export async function eraseVm(session: HostSession, vm: VolumeOwner): Promise<void> {
  let [pool, handle] = await together([findPool(session), findDomain(session, vm.uuid)]);
  for (let round = 0; round < ROUNDS; round++) {
    if (handle === null) {
      await deleteVolumes(session, pool, vm);
      return;
    }
    await destroy(session, handle);
    await deleteVolumes(session, pool, vm);
    // Without its disk no start can succeed any more, so this destroy is final.
    await destroy(session, handle);
    await undefine(session, handle);
    handle = await findDomain(session, vm.uuid);
  }
  throw new ProviderError(
    'transient',
    `the domain of ${vm.name} is still there after ${ROUNDS} rounds of deleting it`,
  );
}

async function findDomain(session: HostSession, uuid: string): Promise<DomainHandle | null> {
  try {
    return (await session.call('domainLookupByUuid', { uuid: parseUuid(uuid) })).dom;
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noDomain)) return null;
    throw error;
  }
}

/** Not running (55) and not there (42) are what was wanted. */
async function destroy(session: HostSession, dom: DomainHandle): Promise<void> {
  await unless([ERROR_CODE.operationInvalid, ERROR_CODE.noDomain], () =>
    session.call('domainDestroy', { dom }),
  );
}

async function undefine(session: HostSession, dom: DomainHandle): Promise<void> {
  for (const flags of UNDEFINE_FLAGS) {
    try {
      // 55: a transient domain has no definition to remove; the next round's destroy ends it.
      await unless([ERROR_CODE.operationInvalid, ERROR_CODE.noDomain], () =>
        session.call('domainUndefineFlags', { dom, flags }),
      );
      return;
    } catch (error) {
      const isUnknownFlag = hasCode(error, ERROR_CODE.invalidArg, ERROR_CODE.argumentUnsupported);
      if (!isUnknownFlag || flags === UNDEFINE_BASE) throw error;
    }
  }
}

async function unless(codes: readonly number[], call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!hasCode(error, ...codes)) throw error;
  }
}
