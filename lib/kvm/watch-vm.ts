/**
 * What a worker does with a VM that was started: it looks until the guest's address is recorded and, where that was asked
 * for, until cloud-init is done and user-data off the seed; or until the deadline passes. A repeat of the create request
 * after that begins a new watch.
 */
import { LibvirtError, LibvirtTimeoutError } from '../libvirt/errors.ts';
import { ProviderError } from '../provider/provider-error.ts';
import type { WorkMessage } from '../provider/work.ts';
import { limitAgentWait } from './agent-command.ts';
import { kindOf } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { idOf } from './instance-view.ts';
import { observe } from './observe-vm.ts';
import { type ProviderContext, sendWork } from './provider-context.ts';
import { seeReadiness } from './readiness.ts';
import { isScrubDue, scrubSeed } from './scrub-seed.ts';
import type { OwnVm } from './vm.ts';

/** How long to wait before looking again for an address: a cloud image boots in 10–60 s. */
export const WATCH_SECONDS = 10;
const WATCH_SECONDS_LATER = 30;
const WATCHES_BEFORE_LATER = 12;

/** For the scrub alone, more after each look: cloud-init may need minutes, and each look is a session with the host. */
const SCRUB_SECONDS = 30;
const SCRUB_SECONDS_AT_MOST = 300;

export async function watchVm(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  message: WorkMessage,
): Promise<void> {
  const { phase } = vm.description.metadata;
  const isOn = vm.handle.id >= 0;
  // One that is off has no address to wait for. It may be started again before the deadline, by whomever.
  const hasAddress = !isOn || (await lookForAddress(context, session, vm));
  const isScrubbed = !isScrubDue(vm) || (isOn && (await tryToScrub(context, session, vm)));
  if (hasAddress && isScrubbed) return;
  if (context.options.now() >= (phase?.deadline ?? 0)) {
    if (!isScrubbed)
      context.report('scrub-given-up', { id: idOf(vm), reason: 'the deadline of the create has passed' });
    return;
  }
  const { attempt } = message;
  const waitSeconds = hasAddress ? scrubWaitSeconds(attempt) : addressWaitSeconds(attempt);
  await sendWork(context, 'create', vm.host, vm.identity, waitSeconds, attempt + 1);
}

function addressWaitSeconds(attempt: number): number {
  return attempt < WATCHES_BEFORE_LATER ? WATCH_SECONDS : WATCH_SECONDS_LATER;
}

function scrubWaitSeconds(attempt: number): number {
  return Math.min(SCRUB_SECONDS * (attempt + 1), SCRUB_SECONDS_AT_MOST);
}

/** @returns whether one of this run is recorded now. */
async function lookForAddress(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<boolean> {
  if (vm.description.metadata.address?.runtimeId === vm.handle.id) return true;
  return (await observe(context, session, vm, { lookAfresh: true })).ip !== null;
}

/** @returns whether there is nothing left to wait for. @throws only what ends the session. */
async function tryToScrub(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<boolean> {
  const id = idOf(vm);
  // It was asked for when this VM was made, and may be again before the deadline.
  if (context.options.readiness?.cloudInit !== true) return false;
  try {
    await limitAgentWait(session, vm.handle);
    const { cloudInit, isSeedUsed } = await seeReadiness(session, vm.handle);
    if (!isSeedUsed) return false;
    if (await scrubSeed(context, session, vm.identity.uuid))
      context.report('seed-scrubbed', { id, cloudInit });
    return true;
  } catch (error) {
    // A volume or a pool that is not as it should be, or a call that hangs on it, may be well again by the deadline.
    const isPassing =
      error instanceof LibvirtError || error instanceof LibvirtTimeoutError || error instanceof ProviderError;
    if (!isPassing) throw error;
    context.report('scrub-failed', { id, kind: kindOf(error) });
    return false;
  }
}
