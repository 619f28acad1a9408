/**
 * A VM's own two volumes: the seed and the overlay. "Exists" is never taken for "done": a volume that somebody else
 * is making is there before it is usable, and a daemon that died over one leaves a file that is neither.
 */
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { StoragePoolHandle, StorageVolHandle } from '../libvirt/objects.ts';
import { whileBuilding } from '../libvirt/while-building.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { hasCode } from './error-classification.ts';
import { refineRefusal } from './host-resources.ts';
import type { HostSession } from './host-session.ts';
import { together } from './together.ts';
import { VOLUME_KINDS, type VolumeOwner, volumeName } from './volume-names.ts';
import { buildOverlayXml, buildRawVolumeXml, type OverlaySpec, parseVolumeXml } from './volume-xml.ts';

/**
 * Stores the whole seed. A seed has its full size before any byte arrived and libvirt checks no stream's length, so
 * an existing one proves nothing: every creator uploads all of it until the phase says `seeded`. That several may do
 * so at once is harmless, since their bytes are the same.
 */
export async function storeSeed(
  session: HostSession,
  pool: StoragePoolHandle,
  owner: VolumeOwner,
  seed: Uint8Array,
): Promise<void> {
  const name = volumeName(owner, 'seed');
  const xml = buildRawVolumeXml(name, seed.length);
  const { vol } = await createOrFind(session, pool, name, xml, BigInt(seed.length));
  await whileBuilding(() => writeVolume(session, vol, 0, seed));
}

/**
 * Makes the overlay or finds the one that is there.
 * @returns `damaged` for one that does not match: the daemon died over it, or the file was cut.
 */
export async function ensureOverlay(
  session: HostSession,
  pool: StoragePoolHandle,
  overlay: OverlaySpec,
): Promise<'ready' | 'damaged'> {
  const { vol, isNew } = await createOrFind(session, pool, overlay.name, buildOverlayXml(overlay), 0n);
  return isNew || (await matches(session, vol, overlay)) ? 'ready' : 'damaged';
}

/**
 * Makes a damaged overlay again, unless a start was ever issued: then it may hold the guest's data and is left alone. It is
 * looked at once more: another worker may have made it good.
 *
 * @param mayHoldData as whileRemaking() says, within which this runs
 * @throws ProviderError `permanent` for a disk that does not match and may not be made again.
 */
export async function remakeOverlay(
  session: HostSession,
  pool: StoragePoolHandle,
  overlay: OverlaySpec,
  mayHoldData: boolean,
): Promise<void> {
  if ((await ensureOverlay(session, pool, overlay)) === 'ready') return;
  if (mayHoldData) {
    throw new ProviderError('permanent', `the disk ${overlay.name} is not the overlay it was made as`);
  }
  await deleteVolume(session, pool, overlay.name);
  if ((await ensureOverlay(session, pool, overlay)) === 'damaged') {
    throw new ProviderError('transient', `the overlay ${overlay.name} does not come out as it was asked for`);
  }
}

/** Deletes both volumes of one incarnation. Repeatable; a missing pool or volume counts as done. */
export async function deleteVolumes(
  session: HostSession,
  pool: StoragePoolHandle | null,
  owner: VolumeOwner,
): Promise<void> {
  if (pool === null) return;
  await together(VOLUME_KINDS.map((kind) => deleteVolume(session, pool, volumeName(owner, kind))));
}

/** @returns false when there was none. */
export async function deleteVolume(
  session: HostSession,
  pool: StoragePoolHandle,
  name: string,
): Promise<boolean> {
  try {
    const { vol } = await session.call('storageVolLookupByName', { pool, name });
    await whileBuilding(() => session.call('storageVolDelete', { vol, flags: 0 }));
    return true;
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noStorageVol, ERROR_CODE.noStoragePool)) return false;
    throw error;
  }
}

/** `isNew`: the daemon answered this very call, so the volume is whole. */
async function createOrFind(
  session: HostSession,
  pool: StoragePoolHandle,
  name: string,
  xml: string,
  neededBytes: bigint,
): Promise<{ readonly vol: StorageVolHandle; readonly isNew: boolean }> {
  try {
    const { vol } = await session.call('storageVolCreateXml', { pool, xml, flags: 0 });
    return { vol, isNew: true };
  } catch (error) {
    if (!hasCode(error, ERROR_CODE.storageVolExist))
      throw await refineRefusal(session, error, { pool, neededBytes });
    const { vol } = await session.call('storageVolLookupByName', { pool, name });
    return { vol, isNew: false };
  }
}

/**
 * Reading one byte is the only harmless call that a volume under construction refuses (55); its XML would be answered,
 * from a file that is not finished.
 */
async function matches(session: HostSession, vol: StorageVolHandle, overlay: OverlaySpec): Promise<boolean> {
  await whileBuilding(async () => {
    const bytes = session.download('storageVolDownload', { vol, offset: 0n, length: 1n, flags: 0 });
    for await (const chunk of bytes) if (chunk.length > 0) break;
  });
  const { xml } = await session.call('storageVolGetXmlDesc', { vol, flags: 0 });
  const found = parseVolumeXml(xml);
  return (
    found.format === 'qcow2' &&
    found.capacityBytes === overlay.capacityBytes &&
    found.backingPath === overlay.backingPath
  );
}

/** Into a volume that is there, from a byte of it on. libvirt checks no length. */
export async function writeVolume(
  session: HostSession,
  vol: StorageVolHandle,
  offset: number,
  bytes: Uint8Array,
): Promise<void> {
  const args = { vol, offset: BigInt(offset), length: BigInt(bytes.length), flags: 0 };
  await session.upload('storageVolUpload', args, oneChunk(bytes));
}

async function* oneChunk(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
