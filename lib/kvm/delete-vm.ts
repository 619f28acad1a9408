/**
 * Delete: mark, then erase. The mark is written once and never removed, and outranks every phase, so that no worker of
 * the create goes on and whoever finds it later can finish.
 */
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { DomainHandle } from '../libvirt/objects.ts';
import type { DeleteOptions } from '../provider/provider.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { eraseVm } from './erase.ts';
import { hasCode, toProviderError } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { parseInstanceId } from './instance-id.ts';
import { idOf, isActive } from './instance-view.ts';
import type { DeletingRecord } from './metadata.ts';
import { buildDeleting } from './metadata-elements.ts';
import { hostNamed, type ProviderContext, sendWork } from './provider-context.ts';
import { together } from './together.ts';
import { asOwn, findVmByName, type OwnVm, writeMetadata } from './vm.ts';

/** The continuation of a delete that ends at once: it finds nothing left to do, unless this invocation dies. */
const CONTINUATION_SECONDS = 60;

export async function deleteVm(
  context: ProviderContext,
  id: string,
  { uid, graceSeconds = 0 }: DeleteOptions,
): Promise<{ readonly gone: boolean }> {
  const { host: hostName, name } = parseInstanceId(id);
  const host = hostNamed(context, hostName);
  try {
    const session = await context.sessions.get(host);
    const found = await findVmByName(session, name);
    if (found === null) return { gone: true };
    const vm = asOwn(found, context.options.fleet);
    if (vm === null)
      throw new ProviderError('conflict', `${id} is held by a domain that is not this fleet's`);
    if (uid !== undefined && uid !== vm.identity.uid) {
      throw new ProviderError('conflict', `${id} is a VM with another uid`);
    }
    if (vm.description.metadata.protected) throw new ProviderError('conflict', `${id} is protected`);
    return { gone: await markAndErase(context, session, vm, graceSeconds) };
  } catch (error) {
    throw toProviderError(error, { op: 'delete', host: host.name, id });
  }
}

/** Writes the mark (the first one stands) and keeps the host from starting the VM by itself. Safe to repeat. */
export async function markDeleting(
  context: ProviderContext,
  session: HostSession,
  handle: DomainHandle,
  { reason, graceUntil = null }: { readonly reason: string; readonly graceUntil?: number | null },
): Promise<DeletingRecord> {
  const record = { since: context.options.now(), reason, graceUntil };
  await together([
    writeMetadata(session, handle, 'deleting', buildDeleting(record)),
    keepFromStarting(session, handle),
  ]);
  return record;
}

/** With the host. A transient domain (55) cannot. */
async function keepFromStarting(session: HostSession, dom: DomainHandle): Promise<void> {
  try {
    await session.call('domainSetAutostart', { dom, autostart: 0 });
  } catch (error) {
    if (!hasCode(error, ERROR_CODE.operationInvalid)) throw error;
  }
}

/** @returns whether the VM is gone; false while its guest has time to shut down. */
async function markAndErase(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  graceSeconds: number,
): Promise<boolean> {
  const { options, report } = context;
  const { identity, handle } = vm;
  try {
    const graceUntil = await graceOf(session, vm, options.now(), graceSeconds);
    const marked =
      vm.description.metadata.deleting ??
      (await markDeleting(context, session, handle, { reason: 'asked for', graceUntil }));
    const untilMs = graceSeconds > 0 ? (marked.graceUntil ?? 0) : 0;
    const waitSeconds = Math.max(0, untilMs - options.now()) / 1000;
    try {
      await sendWork(
        context,
        'delete',
        vm.host,
        identity,
        waitSeconds > 0 ? waitSeconds : CONTINUATION_SECONDS,
      );
    } catch (error) {
      // Nobody else ends a grace period. A delete at once goes on: an unreachable queue must not keep a VM alive.
      if (waitSeconds > 0) throw error;
      report('continuation-not-sent', { id: idOf(vm), error: String(error) });
    }
    if (waitSeconds > 0 && (await shutDown(session, handle))) return false;
    await eraseVm(session, identity);
    return true;
  } catch (error) {
    if (!hasCode(error, ERROR_CODE.noDomain)) throw error;
    await eraseVm(session, identity);
    return true;
  }
}

/** Only a guest that runs can use a grace period. */
async function graceOf(
  session: HostSession,
  vm: OwnVm,
  now: number,
  graceSeconds: number,
): Promise<number | null> {
  if (graceSeconds === 0) return null;
  const { state } = await session.call('domainGetState', { dom: vm.handle, flags: 0 });
  return isActive(state) ? now + graceSeconds * 1000 : null;
}

/** @returns whether there is a guest left to wait for. */
async function shutDown(session: HostSession, dom: DomainHandle): Promise<boolean> {
  try {
    await session.call('domainShutdown', { dom });
    return true;
  } catch (error) {
    if (hasCode(error, ERROR_CODE.operationInvalid)) return false;
    throw error;
  }
}
