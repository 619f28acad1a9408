/**
 * The provider on libvirt: the contract's operations on one set of sessions. One is made for every invocation and
 * closed with it; it keeps no state of its own, since all that is remembered stands in the domains' metadata.
 */
import type { Collector } from '../provider/collection.ts';
import type { Provider } from '../provider/provider.ts';
import { collectVm, collectVolume, viewFleet } from './collect-vms.ts';
import { continueWork } from './continue-work.ts';
import { createVm } from './create-vm.ts';
import { deleteVm } from './delete-vm.ts';
import { getVm } from './get-vm.ts';
import { HostSessions } from './host-sessions.ts';
import { listVms } from './list-vms.ts';
import type { ProviderContext } from './provider-context.ts';
import type { KvmProviderOptions } from './provider-options.ts';

/** Touches no host until an operation is called. Whoever makes one must `close` it, whatever happens. */
export function createKvmProvider(options: KvmProviderOptions): Provider & Collector {
  const sessions = new HostSessions(options);
  const context: ProviderContext = { options, sessions, report: options.report ?? (() => undefined) };
  return {
    create: (request) => createVm(context, request),
    get: (id) => getVm(context, id),
    delete: (id, deleteOptions = {}) => deleteVm(context, id, deleteOptions),
    listByTag: (listOptions = {}) => listVms(context, listOptions),
    continueWork: (message) => continueWork(context, message),
    fleetView: () => viewFleet(context),
    collectVm: (vm, stillDue, reason) => collectVm(context, vm, stillDue, reason),
    collectVolume: (volume) => collectVolume(context, volume),
    close: () => sessions.close(),
  };
}
