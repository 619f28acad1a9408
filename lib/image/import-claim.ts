/**
 * Who may fill an image's next generation, and what becomes of the earlier ones. The claim's expiry decides only who
 * may try; what is true is decided by the verdicts, so that a late importer, a wrong clock or a call that the daemon
 * carries out after its caller gave up can waste an import but never spoil one.
 */
import type { Generation, Verdict } from './generations.ts';
import { readVerdict, VOID_BYTES } from './generations.ts';
import {
  createExclusively,
  deleteVolume,
  findVolume,
  generationVolumeName,
  type ImagePlace,
} from './image-volumes.ts';

/** Clocks of two workers may differ by this much without one taking the other for dead. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * Claims the generation after all that were seen. Null: somebody else was faster.
 * @param deadlineAt when the claimant ends at the latest, in milliseconds since the epoch.
 */
export async function claimNextGeneration(
  place: ImagePlace,
  seen: readonly Generation[],
  deadlineAt: number,
): Promise<number | null> {
  const generation = Math.max(0, ...seen.map(({ number }) => number)) + 1;
  const expiresAtSeconds = Math.ceil(deadlineAt / 1000) + CLOCK_SKEW_SECONDS;
  const claim = generationVolumeName(place.base, 'claim', generation);
  // The expiry is the claim's capacity because that is the one value a volume has from its creation on.
  return (await createExclusively(place, claim, expiresAtSeconds)) === null ? null : generation;
}

/**
 * Gives up what dead importers left, newest first, and frees its space. `complete`: one of them was verified in the
 * meantime after all, and nothing of it was touched.
 */
export async function settlePredecessors(
  place: ImagePlace,
  predecessors: readonly Generation[],
): Promise<'settled' | 'complete'> {
  for (const { number } of predecessors) {
    const verdict = await giveVerdict(place, number, VOID_BYTES);
    const data = generationVolumeName(place.base, 'data', number);
    if (verdict.kind === 'undecided') continue;
    if (verdict.kind === 'verified' && (await findVolume(place, data)) !== null) return 'complete';
    if (verdict.kind === 'void') await deleteVolume(place, data);
    await deleteVolume(place, generationVolumeName(place.base, 'claim', number));
    await deleteVolume(place, generationVolumeName(place.base, 'verdict', number));
  }
  return 'settled';
}

/** Gives the verdict on a generation, or reads the one that was given before: what is returned stands for ever. */
export async function giveVerdict(place: ImagePlace, generation: number, bytes: number): Promise<Verdict> {
  const name = generationVolumeName(place.base, 'verdict', generation);
  const given = (await createExclusively(place, name, bytes)) ?? (await findVolume(place, name));
  return given === null ? { kind: 'undecided' } : readVerdict(place, given);
}

/**
 * The importer's own end without success: from here on nobody needs to wait for the claim to expire. The void verdict
 * stays as the highest number given, so that no later importer gets a number whose calls may still be on their way.
 */
export async function abandonGeneration(place: ImagePlace, generation: number): Promise<Verdict> {
  const verdict = await giveVerdict(place, generation, VOID_BYTES);
  if (verdict.kind === 'void')
    await deleteVolume(place, generationVolumeName(place.base, 'data', generation));
  if (verdict.kind !== 'undecided') await releaseClaim(place, generation);
  return verdict;
}

export async function releaseClaim(place: ImagePlace, generation: number): Promise<void> {
  await deleteVolume(place, generationVolumeName(place.base, 'claim', generation));
}
