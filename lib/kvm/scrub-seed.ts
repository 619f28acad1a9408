/**
 * Takes user-data off a VM's seed once cloud-init is done: in its place, on the running VM, never detached (a guest without
 * its seed has a new identity at the next boot). Only the bytes of user-data are written, all with the same text whoever
 * writes them, so that the volume is whole at every moment and a repeat at any point ends the same
 * (docs/decisions/0006).
 */
import { buffer } from 'node:stream/consumers';
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { StorageVolHandle } from '../libvirt/objects.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { MIN_SCRUBBED_BYTES, scrubbedUserData } from '../seed/scrubbed-user-data.ts';
import { findOnSeed, SEED_DIRECTORY_BYTES, type SeedExtent, SeedLayoutError } from '../seed/seed-extent.ts';
import { hasCode } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import type { Metadata } from './metadata.ts';
import { buildScrub } from './metadata-elements.ts';
import { openPool } from './pool.ts';
import type { ProviderContext } from './provider-context.ts';
import { findOwnByUuid, type OwnVm, writeMetadata } from './vm.ts';
import { volumeName } from './volume-names.ts';
import { writeVolume } from './volumes.ts';

/** The seed was asked to be scrubbed and is not yet. */
export function isScrubDue({ identity, description }: OwnVm): boolean {
  return identity.scrub && description.metadata.scrub?.doneAt == null;
}

/** Some bytes of the seed were overwritten, or are about to be: nobody may store the whole of it again. */
export function hasScrubBegun({ scrub }: Metadata): boolean {
  return scrub !== null;
}

/**
 * The caller knows that cloud-init is over in the guest. Repeatable, also beside another one of the same VM.
 *
 * The mark goes before the bytes and the record after them: a creator that was slow and stores the whole seed only now
 * looks for the mark when it has, and finds it unless all of this is still to come.
 *
 * @returns false when the VM was deleted, or is being deleted, in the meantime.
 * @throws ProviderError `permanent` for a volume that is not the seed that was made; what the lower layers throw.
 */
export async function scrubSeed(
  context: ProviderContext,
  session: HostSession,
  uuid: string,
): Promise<boolean> {
  const { fleet, now } = context.options;
  const vm = await findOwnByUuid(session, uuid, fleet);
  if (vm === null || vm.description.metadata.deleting !== null) return false;
  const { handle, identity } = vm;
  try {
    const since = vm.description.metadata.scrub?.since ?? now();
    await writeMetadata(session, handle, 'scrub', buildScrub({ since, doneAt: null }));
    await overwriteUserData(session, vm);
    await writeMetadata(session, handle, 'scrub', buildScrub({ since, doneAt: now() }));
    return true;
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noDomain)) return false;
    if (error instanceof SeedLayoutError) {
      throw new ProviderError(
        'permanent',
        `the seed of ${identity.name} was not overwritten: ${error.message}`,
        {
          cause: error,
        },
      );
    }
    throw error;
  }
}

async function overwriteUserData(session: HostSession, { identity }: OwnVm): Promise<void> {
  const pool = await openPool(session);
  const name = volumeName(identity, 'seed');
  const { vol } = await session.call('storageVolLookupByName', { pool: pool.handle, name });
  const { seedBytes } = identity;
  // A volume that is shorter is no seed, and refused as such.
  const beginning = await read(session, vol, { offset: 0, length: SEED_DIRECTORY_BYTES });
  const extent = findOnSeed(beginning, seedBytes, 'user-data');
  if (extent.length < MIN_SCRUBBED_BYTES) throw new SeedLayoutError('its user-data is too short');
  const text = scrubbedUserData(extent.length);
  await writeVolume(session, vol, extent.offset, text);
  // libvirt checks no length, and what is not on the volume must not be said to be.
  const written = await read(session, vol, extent);
  if (!text.equals(written))
    throw new ProviderError('transient', 'the seed does not read back as it was written');
}

async function read(
  session: HostSession,
  vol: StorageVolHandle,
  { offset, length }: SeedExtent,
): Promise<Buffer> {
  const args = { vol, offset: BigInt(offset), length: BigInt(length), flags: 0 };
  return buffer(session.download('storageVolDownload', args));
}
