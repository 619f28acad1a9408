/**
 * Create: reserve the name or join the VM that has it, finish what can be finished within this invocation, and leave
 * the rest to the queue. A repeat of the same request at any moment, any number of times at once, makes one VM.
 */
import type { Instance } from '../provider/instance.ts';
import type { CreateRequest, CreateResult } from '../provider/provider.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { markDeleting } from './delete-vm.ts';
import { eraseVm } from './erase.ts';
import { toProviderError } from './error-classification.ts';
import { finishCreate, startDomain } from './finish-create.ts';
import type { HostSession } from './host-session.ts';
import { isActive } from './instance-view.ts';
import type { PhaseRecord } from './metadata.ts';
import { buildPhase } from './metadata-elements.ts';
import { observe } from './observe-vm.ts';
import { openPool, type Pool } from './pool.ts';
import { type ProviderContext, sendWork } from './provider-context.ts';
import { CONTINUATION_SECONDS, type Reservation, reserve } from './reserve.ts';
import { type ResolvedRequest, requireScrubbable, resolveRequest } from './resolve-request.ts';
import { hasScrubBegun, isScrubDue } from './scrub-seed.ts';
import { differingFields, SCRUB_FIELD, specificationOf } from './specification.ts';
import {
  absentAsNull,
  advancePhase,
  asOwn,
  findVmAgain,
  findVmByName,
  type OwnVm,
  readVm,
  type Vm,
  writeMetadata,
} from './vm.ts';
import { buildVmSeed } from './vm-seed.ts';

/** Two creators that keep taking and losing the name would be the doing of somebody who deletes it as often. */
const ATTEMPTS = 4;

export async function createVm(context: ProviderContext, request: CreateRequest): Promise<CreateResult> {
  const resolved = resolveRequest(context.options, request);
  const id = `${resolved.host.name}/${request.name}`;
  try {
    const session = await context.sessions.get(resolved.host);
    // Asked for together with the name. Where it turns out that nobody needs it, its failure is none.
    const pool = openPool(session);
    pool.catch(() => undefined);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const vm = await findVmByName(session, request.name);
      if (vm !== null) return await join(context, session, pool, resolved, vm);
      requireScrubbable(resolved);
      const reservation = await reserve(context, session, await pool, resolved);
      if (reservation !== null) return await finishOwn(context, session, await pool, reservation);
    }
    throw new ProviderError('transient', `the name ${request.name} keeps being taken and released`);
  } catch (error) {
    throw toProviderError(error, { op: 'create', host: resolved.host.name, id });
  }
}

/** This request made the incarnation: a refusal before the answer takes back what it made. */
async function finishOwn(
  context: ProviderContext,
  session: HostSession,
  pool: Pool,
  { vm, seed }: Reservation,
): Promise<CreateResult> {
  const { handle, identity } = vm;
  try {
    const result = await finishOrHandOver(context, session, pool, vm, seed, true);
    if (result !== null) return result;
    throw new ProviderError('conflict', 'the VM was deleted while it was being created');
  } catch (error) {
    const refusal = toProviderError(error, { op: 'create', host: identity.host });
    if (refusal.retryable) throw refusal;
    try {
      await markDeleting(context, session, handle, { reason: `the create was refused: ${refusal.message}` });
      await eraseVm(session, identity);
    } catch (rollbackError) {
      // The mark or the deadline lets the collector finish; what the caller must know is why the create failed.
      context.report('rollback-unfinished', {
        id: `${identity.host}/${identity.name}`,
        error: String(rollbackError),
      });
    }
    throw refusal;
  }
}

/**
 * Another request made this VM. If it goes away meanwhile, it was deleted, or that request was refused and took it back,
 * which cannot be told apart; only a repeat can say whether this request is to be refused too.
 */
async function join(
  context: ProviderContext,
  session: HostSession,
  pool: Promise<Pool>,
  resolved: ResolvedRequest,
  found: Vm,
): Promise<CreateResult> {
  const result = await absentAsNull(() => finishJoined(context, session, pool, resolved, found));
  if (result !== null) return result;
  const { name } = resolved.request;
  throw new ProviderError(
    'transient',
    `the VM ${name} went away: it was deleted, or the request that made it was refused`,
  );
}

async function finishJoined(
  context: ProviderContext,
  session: HostSession,
  pool: Promise<Pool>,
  resolved: ResolvedRequest,
  found: Vm,
): Promise<CreateResult | null> {
  const vm = requireSame(context, resolved, found);
  const { metadata } = vm.description;
  if (metadata.deleting !== null) {
    throw new ProviderError('transient', `a VM of the name ${vm.identity.name} is still being deleted`);
  }
  const phase = metadata.phase;
  if (phase?.phase === 'ready') {
    const instance = await ensureRunning(context, session, vm);
    return instance === null ? null : { outcome: 'existing', instance };
  }
  const seed = buildVmSeed(resolved, vm.identity);
  const isOver = phase === null || phase.phase === 'failed' || context.options.now() >= phase.deadline;
  const current = isOver ? await resume(context, session, vm) : vm;
  // Else a worker has this VM, or has waited in vain for the seed: one more message would only be one more to carry on.
  const isNews = isOver || !phase.seeded;
  return finishOrHandOver(context, session, await pool, current, seed, isNews);
}

/** @throws ProviderError `conflict` that names the fact: foreign, another uid, or the fields that differ. */
function requireSame(context: ProviderContext, { request }: ResolvedRequest, found: Vm): OwnVm {
  const vm = asOwn(found, context.options.fleet);
  if (vm === null) {
    throw new ProviderError(
      'conflict',
      `the name ${request.name} is held by a domain that is not this fleet's`,
    );
  }
  if (request.uid !== undefined && request.uid !== vm.identity.uid) {
    throw new ProviderError('conflict', `the name ${request.name} is held by a VM with another uid`);
  }
  const fields = differingFields(specificationOf(request, vm.identity.uuid), vm.identity.requested).filter(
    // One that says nothing of it takes the VM as it is: the machine type's word may have changed since.
    (field) =>
      field !== SCRUB_FIELD || (request.seed !== undefined && request.seed.scrub !== vm.identity.scrub),
  );
  if (fields.length > 0) {
    throw new ProviderError('conflict', `the VM ${request.name} exists and differs in ${fields.join(', ')}`, {
      errors: fields.map((field) => ({ pointer: `/${field.replaceAll('.', '/')}`, detail: 'differs' })),
    });
  }
  return vm;
}

/**
 * A VM that was made and is shut off is started again, and its address waited for: a create makes it exist and run. One
 * that runs, with a seed that could not be scrubbed in time, is watched for another while.
 */
async function ensureRunning(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
): Promise<Instance | null> {
  const { state } = await session.call('domainGetState', { dom: vm.handle, flags: 0 });
  if (!isActive(state) && vm.handle.id < 0) {
    await sendWork(context, 'create', vm.host, vm.identity, CONTINUATION_SECONDS);
    await advancePhase(session, vm.handle, { phase: 'ready', deadline: newDeadline(context) });
    await startDomain(context, session, vm);
  } else if (isScrubDue(vm) && context.options.now() >= (vm.description.metadata.phase?.deadline ?? 0)) {
    // Before its deadline a worker watches this VM already.
    await sendWork(context, 'create', vm.host, vm.identity, CONTINUATION_SECONDS);
    await advancePhase(session, vm.handle, { phase: 'ready', deadline: newDeadline(context) });
  }
  return instanceOf(context, session, vm);
}

/**
 * A create that failed, or whose deadline passed, gets a new one and goes on from what it has. The message goes first:
 * one that finds the old end is harmless, a new beginning that nobody carries on is not.
 */
async function resume(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<OwnVm> {
  await sendWork(context, 'create', vm.host, vm.identity, CONTINUATION_SECONDS);
  const { description } = await readVm(session, vm.handle);
  const before = description.metadata.phase;
  if (before?.phase === 'ready') return { ...vm, description };
  const seeded = before?.seeded === true || hasScrubBegun(description.metadata);
  const phase: PhaseRecord = {
    phase: seeded ? 'seeded' : 'reserved',
    seeded,
    startRefused: before?.startRefused === true,
    attempt: (before?.attempt ?? 0) + 1,
    deadline: newDeadline(context),
    error: null,
  };
  await writeMetadata(session, vm.handle, 'phase', buildPhase(phase));
  return { ...vm, description: (await readVm(session, vm.handle)).description };
}

function newDeadline({ options }: ProviderContext): number {
  return options.now() + options.deadlines.createSeconds * 1000;
}

/**
 * @param isNews whether the queue is to hear of it when this invocation cannot finish.
 * @returns null when the VM is gone.
 */
async function finishOrHandOver(
  context: ProviderContext,
  session: HostSession,
  pool: Pool,
  vm: OwnVm,
  seed: Uint8Array,
  isNews: boolean,
): Promise<CreateResult | null> {
  const progress = await finishCreate(context, session, pool, vm, seed);
  const instance = progress === 'gone' ? null : await instanceOf(context, session, vm);
  if (instance === null) return null;
  if (progress === 'ready') return { outcome: 'created', instance };
  if (isNews) await sendWork(context, 'create', vm.host, vm.identity, 0);
  return { outcome: 'accepted', instance };
}

async function instanceOf(
  context: ProviderContext,
  session: HostSession,
  { handle }: OwnVm,
): Promise<Instance | null> {
  const found = await findVmAgain(session, handle);
  const vm = found === null ? null : asOwn(found, context.options.fleet);
  return vm === null ? null : absentAsNull(() => observe(context, session, vm, { lookAfresh: false }));
}
