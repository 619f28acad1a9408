/**
 * Who may make a VM's disk again. The disk has one name, and libvirt deletes it under a running guest without a word, so a
 * worker that is about to delete a damaged one and a start must not miss each other: both write, then look. Here the
 * worker's own element, then the look for `started`; the start writes `started`, then looks for such elements. In whatever
 * order their calls arrive, one of them sees the other. Each worker has an element of its own: with one for all, the first
 * that is done would take away the mark of the next.
 */
import { LibvirtError } from '../libvirt/errors.ts';
import { ProviderError } from '../provider/provider-error.ts';
import type { HostSession } from './host-session.ts';
import { type Metadata, remakingPlace } from './metadata.ts';
import { buildRemaking } from './metadata-elements.ts';
import type { ProviderContext } from './provider-context.ts';
import { type OwnVm, readVm, writeElement } from './vm.ts';

/** An element that is older is of a worker that died: no invocation lasts longer than 15 minutes, and clocks differ. */
const LONGEST_REMAKE_MS = 20 * 60 * 1000;

/**
 * Runs `remake` while no start can begin.
 * @param remake told whether one was issued before: then the disk may hold the guest's data.
 */
export async function whileRemaking<T>(
  { options }: ProviderContext,
  session: HostSession,
  { handle }: OwnVm,
  remake: (wasStarted: boolean) => Promise<T>,
): Promise<T> {
  const place = remakingPlace(options.randomUuid());
  const release = () => writeElement(session, handle, place, null);
  await writeElement(session, handle, place, buildRemaking(options.now()));
  const { startedAt } = (await readVm(session, handle)).description.metadata;
  let result: T;
  try {
    result = await remake(startedAt !== null);
  } catch (error) {
    // Without an answer a delete may still be on its way, and the element has to outlast it.
    if (error instanceof LibvirtError || error instanceof ProviderError)
      await release().catch(() => undefined);
    throw error;
  }
  await release();
  return result;
}

/** Whether somebody may be about to delete the disk. */
export function isBeingRemade({ remakingSince }: Metadata, now: number): boolean {
  return remakingSince.some((since) => now - since < LONGEST_REMAKE_MS);
}
