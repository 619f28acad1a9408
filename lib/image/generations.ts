/**
 * What a pool holds of an image: its import generations and, among them, the one that is complete. Only a verdict
 * makes data complete; sizes, times and claims never do.
 */
import type { StorageVolHandle } from '../libvirt/index.ts';
import { type ImagePlace, parseGenerationVolume, readCapacity, type VolumeRole } from './image-volumes.ts';

/** Its volumes, as far as they exist. */
export type Generation = { readonly number: number } & {
  readonly [role in VolumeRole]?: StorageVolHandle;
};

/**
 * A verdict is a volume whose capacity says what it is. Created exclusively, it is given once: by the importer that
 * checked every byte, or by whoever gives a generation up. `undecided`: there is none, or one is just being created.
 */
export type Verdict =
  | { readonly kind: 'verified'; readonly virtualSizeBytes: number }
  | { readonly kind: 'void' }
  | { readonly kind: 'undecided' };

/** Capacity of the verdict on a generation that will never be complete. No disk is as small. */
export const VOID_BYTES = 1;

export interface CompleteGeneration {
  readonly number: number;
  readonly data: StorageVolHandle;
  readonly virtualSizeBytes: number;
}

/** All generations, newest first, from one listing as the daemon remembers the pool (storagePoolListAllVolumes). */
export async function listGenerations(place: ImagePlace): Promise<readonly Generation[]> {
  const { vols } = await place.connection.call(
    'storagePoolListAllVolumes',
    { pool: place.pool, needResults: 1, flags: 0 },
    place.options,
  );
  const byNumber = new Map<number, Generation>();
  for (const vol of vols) {
    const parsed = parseGenerationVolume(place.base, vol.name);
    if (parsed === null) continue;
    const { generation: number, role } = parsed;
    byNumber.set(number, { ...(byNumber.get(number) ?? { number }), [role]: vol });
  }
  return [...byNumber.values()].sort((a, b) => b.number - a.number);
}

/** The newest complete one; null when there is none. Data whose file is gone is none, whatever its verdict. */
export async function findComplete(
  place: ImagePlace,
  generations: readonly Generation[],
): Promise<CompleteGeneration | null> {
  for (const { number, data, verdict } of generations) {
    if (data === undefined || verdict === undefined) continue;
    const [judged, dataBytes] = await Promise.all([readVerdict(place, verdict), readCapacity(place, data)]);
    if (judged.kind === 'verified' && dataBytes !== null) {
      return { number, data, virtualSizeBytes: judged.virtualSizeBytes };
    }
  }
  return null;
}

export async function readVerdict(place: ImagePlace, verdict: StorageVolHandle): Promise<Verdict> {
  const capacity = (await readCapacity(place, verdict)) ?? 0;
  // The daemon opens the file first and gives it its size then; in between it reads as 0.
  if (capacity === 0) return { kind: 'undecided' };
  return capacity === VOID_BYTES ? { kind: 'void' } : { kind: 'verified', virtualSizeBytes: capacity };
}

/**
 * When the newest generation's claim ends, in milliseconds since the epoch; null when nobody claims to be at work. An
 * older claim does not count: a newer one was only made because it had ended.
 */
export async function claimedUntil(
  place: ImagePlace,
  generations: readonly Generation[],
): Promise<number | null> {
  const [newest] = generations;
  if (newest?.claim === undefined || newest.verdict !== undefined) return null;
  const expiresAtSeconds = await readCapacity(place, newest.claim);
  return expiresAtSeconds === null ? null : expiresAtSeconds * 1000;
}
