/**
 * List: every host in parallel, every domain of a host in one pipelined sweep. A domain that vanished, cannot be read or
 * does not answer is left out; a host that cannot be read makes its part incomplete and says why. No guest is asked
 * anything.
 */
import { LibvirtError, LibvirtTimeoutError } from '../libvirt/errors.ts';
import type { DomainHandle } from '../libvirt/objects.ts';
import { XmlError } from '../libvirt/xml-tree.ts';
import type { HostView, Instance } from '../provider/instance.ts';
import type { Listing, ListOptions } from '../provider/provider.ts';
import { IN_FLIGHT, mapBounded } from './bounded-map.ts';
import { type DomainState, readDomainStates } from './domain-states.ts';
import { toProviderError } from './error-classification.ts';
import type { CallOptions, HostSession } from './host-session.ts';
import { buildInstance } from './instance-view.ts';
import { observe } from './observe-vm.ts';
import { hostNamed, type ProviderContext } from './provider-context.ts';
import type { KvmHost } from './provider-options.ts';
import { asOwn, type OwnVm, readVm } from './vm.ts';

/**
 * A domain's lock can be held for as long as its guest is stuck (LV-05): it gets this long, the sweep goes on without
 * it. A healthy host answers for a thousand domains in a fraction of a second.
 */
const DOMAIN_LIMIT_MS = 5_000;
/** Five stuck ones occupy all that libvirtd serves one client at once: then it is not they who do not answer. */
const MAX_STUCK = 4;

export async function listVms(context: ProviderContext, { host }: ListOptions): Promise<Listing> {
  const hosts = host === undefined ? context.options.hosts : [hostNamed(context, host)];
  const parts = await Promise.all(
    hosts.map((each) =>
      viewHost(context, each, async (session) => {
        const { vms } = await readOwnVms(context, session);
        // Only then: a state from before a VM's metadata were read would show one that was just started as stopped.
        const states = await readDomainStates(session);
        return presentOnly(vms, (vm, limits) =>
          viewVm(context, session, vm, states.get(vm.identity.uuid), limits),
        );
      }),
    ),
  );
  return {
    instances: parts.flatMap(({ value }): readonly Instance[] => value ?? []),
    hosts: parts.map(({ view }) => view),
  };
}

/** From what is known already; a call of its own only for a domain whose state is not. */
async function viewVm(
  context: ProviderContext,
  session: HostSession,
  vm: OwnVm,
  seen: DomainState | undefined,
  limits: CallOptions,
): Promise<Instance> {
  if (seen === undefined) return observe(context, session, vm, { lookAfresh: false, limits });
  return buildInstance({
    vm: { ...vm, handle: seen.handle },
    state: seen.state,
    addresses: null,
    progress: null,
    now: context.options.now(),
  });
}

/** Runs a read of one host; its failure is a fact about the host, not an exception. */
export async function viewHost<T>(
  context: ProviderContext,
  host: KvmHost,
  read: (session: HostSession) => Promise<T>,
): Promise<{ readonly view: HostView; readonly value: T | null }> {
  try {
    const value = await read(await context.sessions.get(host));
    return { view: { name: host.name, complete: true }, value };
  } catch (error) {
    const { kind, message } = toProviderError(error, { op: 'list', host: host.name });
    return {
      view: { name: host.name, complete: false, error: { code: kind, detail: message } },
      value: null,
    };
  }
}

/** All domains by handle, and those of this fleet that could be read. */
export async function readOwnVms(
  context: ProviderContext,
  session: HostSession,
): Promise<{ readonly handles: readonly DomainHandle[]; readonly vms: readonly OwnVm[] }> {
  const { domains } = await session.call('connectListAllDomains', { needResults: 1, flags: 0 });
  const vms = await presentOnly(domains, async (handle, limits) =>
    asOwn(await readVm(session, handle, limits), context.options.fleet),
  );
  return { handles: domains, vms: vms.filter((vm) => vm !== null) };
}

/**
 * One domain that is gone, unreadable (LV-14) or stuck is skipped: a domain that is not listed is never collected.
 * @throws LibvirtTimeoutError when it is the host that does not answer, or the invocation that has no time left.
 */
async function presentOnly<T, R>(
  items: readonly T[],
  read: (item: T, limits: CallOptions) => Promise<R>,
): Promise<R[]> {
  const stuck: LibvirtTimeoutError[] = [];
  const results = await mapBounded(items, IN_FLIGHT, async (item): Promise<R[]> => {
    try {
      return [await read(item, { timeoutMs: DOMAIN_LIMIT_MS })];
    } catch (error) {
      if (error instanceof LibvirtError || error instanceof XmlError) return [];
      if (!(error instanceof LibvirtTimeoutError) || error.timeoutMs < DOMAIN_LIMIT_MS) throw error;
      // At once: of a thousand domains that do not answer, each further hundred would cost five seconds more.
      if (stuck.push(error) > MAX_STUCK) throw error;
      return [];
    }
  });
  const [first] = stuck;
  if (first !== undefined && stuck.length === items.length) throw first;
  return results.flat();
}
