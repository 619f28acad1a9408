/** Looks at a VM of ours and says what callers see of it. */
import { imageState } from '../image/image-state.ts';
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { Instance, InstanceAddress, Readiness } from '../provider/instance.ts';
import { type SeenAddresses, seeAddresses } from './addresses.ts';
import { hasCode } from './error-classification.ts';
import type { CallOptions, HostSession } from './host-session.ts';
import { buildInstance, isActive } from './instance-view.ts';
import { buildAddress } from './metadata-elements.ts';
import { findPool } from './pool.ts';
import type { ProviderContext } from './provider-context.ts';
import { NO_AGENT, seeReadiness } from './readiness.ts';
import { type OwnVm, writeMetadata } from './vm.ts';

export interface ObserveOptions {
  /** Ask the guest and the host for the address, and the pool for the import's progress; else the record serves. */
  readonly lookAfresh: boolean;
  /** Ask the guest for cloud-init's status as well, where the configuration says so. */
  readonly askReadiness?: boolean;
  /** For the look at its state; default: the session's. */
  readonly limits?: CallOptions;
}

export async function observe(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  { lookAfresh, askReadiness = false, limits = {} }: ObserveOptions,
): Promise<Instance> {
  const { state } = await session.call('domainGetState', { dom: vm.handle, flags: 0 }, limits);
  const looks = lookAfresh && isActive(state);
  const seen = looks ? await seeAddresses(session, vm.handle, vm.description.macs) : null;
  const addresses = seen?.addresses ?? null;
  if (addresses !== null) await recordAddress(context, session, vm, addresses);
  const asks = askReadiness && context.options.readiness?.cloudInit === true;
  const readiness = asks ? await readinessOf(session, vm, seen) : undefined;
  const importing = vm.description.metadata.phase?.phase === 'importing-image';
  const progress = lookAfresh && importing ? await importProgress(context, session, vm) : null;
  return buildInstance({
    vm,
    state,
    addresses,
    progress,
    now: context.options.now(),
    ...(readiness === undefined ? {} : { readiness }),
  });
}

/** Null for a VM that does not run. An agent that has just kept a question waiting is not asked a second one. */
async function readinessOf(
  session: HostSession,
  vm: OwnVm,
  seen: SeenAddresses | null,
): Promise<Readiness | null> {
  if (seen === null) return null;
  const { cloudInit, detail } = seen.hasAgent ? await seeReadiness(session, vm.handle) : NO_AGENT;
  return { cloudInit, detail };
}

/** Whoever sees a new address records it, so that a list, which asks no guest, can show it. */
async function recordAddress(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  addresses: readonly InstanceAddress[],
): Promise<void> {
  const [seen] = addresses;
  const recorded = vm.description.metadata.address;
  if (seen === undefined) return;
  if (recorded?.address === seen.address && recorded.runtimeId === vm.handle.id) return;
  const record = { ...seen, seenAt: context.options.now(), runtimeId: vm.handle.id };
  try {
    await writeMetadata(session, vm.handle, 'address', buildAddress(record));
  } catch (error) {
    // Deleted since it was read: the caller is told what was seen all the same.
    if (!hasCode(error, ERROR_CODE.noDomain)) throw error;
  }
}

async function importProgress(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
): Promise<Instance['progress']> {
  const image = context.options.images[vm.identity.image];
  const pool = await findPool(session);
  if (image === undefined || pool === null) return null;
  const source = { ...image, name: vm.identity.image };
  const found = await imageState(session.connection, pool, source, context.options);
  return found.state === 'importing' ? { doneBytes: found.doneBytes, totalBytes: found.totalBytes } : null;
}
