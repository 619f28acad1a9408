/**
 * What a worker does with a VM that was started: it looks until the guest's address is recorded and, where that was asked
 * for, until cloud-init is done and user-data off the seed; or until the deadline passes. A repeat of the create request
 * after that begins a new watch.
 */
import { LibvirtError } from '../libvirt/errors.ts';
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

export async function watchVm(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  message: WorkMessage,
): Promise<void> {
  const { phase } = vm.description.metadata;
  const id = idOf(vm);
  if (vm.handle.id < 0) {
    if (isScrubDue(vm)) context.report('scrub-given-up', { id, reason: 'the VM does not run' });
    return;
  }
  const hasAddress = await lookForAddress(context, session, vm);
  const isScrubbed = !isScrubDue(vm) || (await tryToScrub(context, session, vm));
  if (hasAddress && isScrubbed) return;
  if (context.options.now() >= (phase?.deadline ?? 0)) {
    if (!isScrubbed)
      context.report('scrub-given-up', { id, reason: 'the deadline of the create has passed' });
    return;
  }
  const waitSeconds = message.attempt < WATCHES_BEFORE_LATER ? WATCH_SECONDS : WATCH_SECONDS_LATER;
  await sendWork(context, 'create', vm.host, vm.identity, waitSeconds, message.attempt + 1);
}

/** @returns whether one of this run is recorded now. */
async function lookForAddress(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<boolean> {
  if (vm.description.metadata.address?.runtimeId === vm.handle.id) return true;
  return (await observe(context, session, vm, { lookAfresh: true })).ip !== null;
}

/** @returns whether there is nothing left to wait for. @throws only what ends the session. */
async function tryToScrub(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<boolean> {
  const id = idOf(vm);
  if (context.options.readiness?.cloudInit !== true) {
    context.report('scrub-given-up', { id, reason: 'the configuration no longer asks guests for readiness' });
    return true;
  }
  try {
    await limitAgentWait(session, vm.handle);
    const { cloudInit, isSeedUsed } = await seeReadiness(session, vm.handle);
    if (!isSeedUsed) return false;
    if (await scrubSeed(context, session, vm.identity.uuid))
      context.report('seed-scrubbed', { id, cloudInit });
    return true;
  } catch (error) {
    // A volume or a pool that is not as it should be may be repaired by the deadline; the VM itself is well.
    if (!(error instanceof LibvirtError || error instanceof ProviderError)) throw error;
    context.report('scrub-failed', { id, kind: kindOf(error) });
    return false;
  }
}
