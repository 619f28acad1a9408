/**
 * What the worker does with a message. The message says which incarnation to look at; what is to be done stands in the
 * domain's metadata. A worker never defines: a domain that is not there was deleted.
 */
import { ProviderError } from '../provider/provider-error.ts';
import type { WorkMessage } from '../provider/work.ts';
import { eraseVm } from './erase.ts';
import { toProviderError } from './error-classification.ts';
import { type CreateProgress, finishCreate } from './finish-create.ts';
import type { HostSession } from './host-session.ts';
import { idOf, isActive } from './instance-view.ts';
import { openPool } from './pool.ts';
import { hostNamed, type ProviderContext, sendWork } from './provider-context.ts';
import { advancePhase, asOwn, findVmByUuid, type OwnVm } from './vm.ts';
import { WATCH_SECONDS, watchVm } from './watch-vm.ts';

/** How long to wait for another worker's import. */
const IMPORT_WAIT_SECONDS = 30;
/** How often to look whether a VM whose request never arrived whole has got a repeat. */
const REPEAT_WAIT_SECONDS = 300;

export async function continueWork(context: ProviderContext, message: WorkMessage): Promise<void> {
  const id = `${message.host}/${message.name}`;
  try {
    const session = await context.sessions.get(hostNamed(context, message.host));
    const found = await findVmByUuid(session, message.uuid);
    if (found === null) {
      const { name, uuid } = message;
      await eraseVm(session, { fleet: context.options.fleet, host: message.host, name, uuid });
      return;
    }
    const vm = asOwn(found, context.options.fleet);
    if (vm === null) {
      context.report('work-on-foreign-domain', { id, uuid: message.uuid });
      return;
    }
    if (vm.description.metadata.deleting !== null) await continueDelete(context, session, vm, message);
    else if (message.op === 'create') await continueCreate(context, session, vm, message);
  } catch (error) {
    throw worthARepeat(toProviderError(error, { op: message.op, host: message.host, id }));
  }
}

/**
 * A create that cannot succeed ends in the VM's own metadata. Whatever else fails is written down nowhere (a host that
 * refuses the key, one that this worker's configuration does not have yet, a delete that libvirt does not permit), and
 * a message that was acknowledged would be the last that anybody hears of it: here every failure is a passing one.
 */
function worthARepeat(failure: ProviderError): ProviderError {
  if (failure.retryable || failure.kind === 'internal') return failure;
  const { message, op, host, id, cause = failure } = failure;
  return new ProviderError('transient', message, {
    ...(op === undefined ? {} : { op }),
    ...(host === undefined ? {} : { host }),
    ...(id === undefined ? {} : { id }),
    cause,
  });
}

async function continueDelete(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  message: WorkMessage,
): Promise<void> {
  const until = vm.description.metadata.deleting?.graceUntil ?? 0;
  const waitSeconds = (until - context.options.now()) / 1000;
  if (waitSeconds > 0) {
    const { state } = await session.call('domainGetState', { dom: vm.handle, flags: 0 });
    if (isActive(state)) {
      if (message.op === 'delete')
        await sendWork(context, 'delete', vm.host, vm.identity, waitSeconds, message.attempt + 1);
      return;
    }
  }
  await eraseVm(session, vm.identity);
}

async function continueCreate(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  message: WorkMessage,
): Promise<void> {
  const { phase } = vm.description.metadata;
  if (phase === null || phase.phase === 'failed') return;
  if (phase.phase === 'ready') return watchVm(context, session, vm, message);
  if (context.options.now() >= phase.deadline) {
    const detail = phase.phase === 'reserved' ? ': its request never arrived whole and was not repeated' : '';
    const error = `the create did not end by ${new Date(phase.deadline).toISOString()}${detail}`;
    await advancePhase(session, vm.handle, { phase: 'failed', error });
    return;
  }
  let progress: CreateProgress;
  try {
    progress = await finishCreate(context, session, await openPool(session), vm, null);
  } catch (error) {
    await recordFailure(context, session, vm, error);
    return;
  }
  const waitSeconds = WAIT_SECONDS[progress];
  if (waitSeconds === null) return;
  const leftSeconds = (phase.deadline - context.options.now()) / 1000;
  await sendWork(
    context,
    'create',
    vm.host,
    vm.identity,
    Math.min(waitSeconds, leftSeconds + 1),
    // The watch counts its own looks: how long the image took says nothing of the guest.
    progress === 'ready' ? 0 : message.attempt + 1,
  );
}

const WAIT_SECONDS: Readonly<Record<CreateProgress, number | null>> = {
  ready: WATCH_SECONDS,
  'no-image': IMPORT_WAIT_SECONDS,
  'no-seed': REPEAT_WAIT_SECONDS,
  gone: null,
};

/** What cannot succeed is said in the VM's own metadata and ends here; the rest is the queue's to repeat. */
async function recordFailure(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  error: unknown,
): Promise<void> {
  const failure = toProviderError(error, { op: 'create', host: session.host.name });
  if (failure.retryable) throw failure;
  context.report('create-failed', { id: idOf(vm), kind: failure.kind });
  await advancePhase(session, vm.handle, { phase: 'failed', error: failure.message });
}
