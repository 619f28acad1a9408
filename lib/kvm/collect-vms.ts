/**
 * The collector's hands: a view of the fleet, and single deletes that look again at the very domain first. What is due
 * is decided elsewhere (lib/gc), on this view alone.
 */
import { LibvirtError } from '../libvirt/errors.ts';
import type { DomainHandle, StorageVolHandle } from '../libvirt/objects.ts';
import { formatUuid } from '../libvirt/uuid.ts';
import type { CollectOutcome, FleetView, OrphanVolume, VmRecord } from '../provider/collection.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { IN_FLIGHT, mapBounded } from './bounded-map.ts';
import { markDeleting } from './delete-vm.ts';
import { eraseVm } from './erase.ts';
import { toProviderError } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { buildVmRecord } from './instance-view.ts';
import { readOwnVms, viewHost } from './list-vms.ts';
import { findPool } from './pool.ts';
import { hostNamed, type ProviderContext } from './provider-context.ts';
import type { KvmHost } from './provider-options.ts';
import { asOwn, findVmByUuid } from './vm.ts';
import { parseVolumeName, uuidPart } from './volume-names.ts';
import { parseVolumeXml } from './volume-xml.ts';
import { deleteVolume } from './volumes.ts';

export async function viewFleet(context: ProviderContext): Promise<FleetView> {
  const seen = await Promise.all(
    context.options.hosts.map((host) =>
      viewHost(context, host, async (session) => {
        // Volumes first: a VM that is made in between has a domain by the time domains are listed.
        const volumes = await ownVolumes(context, session);
        return { host, volumes, ...(await readOwnVms(context, session)) };
      }),
    ),
  );
  const known = new Set(seen.flatMap(({ value }) => value?.handles.map(partOf) ?? []));
  const described = await Promise.all(
    seen.map(async ({ view, value }) => {
      if (value === null) return { view, value };
      const orphans = value.volumes.filter(({ name }) => !known.has(parseVolumeName(name)?.uuidPart ?? ''));
      return viewHost(context, value.host, (session) => describeOrphans(session, orphans));
    }),
  );
  return {
    hosts: described.map(({ view }) => view),
    vms: seen.flatMap(({ value }) => value?.vms.map(buildVmRecord) ?? []),
    orphanVolumes: described.flatMap(({ value }) => value ?? []),
  };
}

export async function collectVm(
  context: ProviderContext,
  target: VmRecord,
  stillDue: (fresh: VmRecord) => boolean,
  reason: string,
): Promise<CollectOutcome> {
  try {
    const session = await context.sessions.get(hostNamed(context, target.host));
    const found = await findVmByUuid(session, target.uuid);
    if (found === null) {
      await eraseVm(session, { ...target, fleet: context.options.fleet });
      return 'gone';
    }
    const vm = asOwn(found, context.options.fleet);
    if (vm === null || vm.description.metadata.protected || !stillDue(buildVmRecord(vm))) return 'kept';
    if (vm.description.metadata.deleting === null)
      await markDeleting(context, session, vm.handle, { reason });
    await eraseVm(session, vm.identity);
    return 'deleted';
  } catch (error) {
    throw toProviderError(error, { op: 'gc', host: target.host, id: target.id });
  }
}

/**
 * Only a name of this very fleet and host is ever deleted, and only while no domain has its UUID on any host: a pool
 * can be shared, a VM can have been moved, and the name says where it was made.
 */
export async function collectVolume(context: ProviderContext, target: OrphanVolume): Promise<CollectOutcome> {
  const name = parseVolumeName(target.volume);
  if (name === null || name.fleet !== context.options.fleet || name.host !== target.host) {
    throw new ProviderError('internal', `${target.volume} is no volume of this fleet on host ${target.host}`);
  }
  try {
    const session = await context.sessions.get(hostNamed(context, target.host));
    const parts = await Promise.all(context.options.hosts.map((host) => domainParts(context, host)));
    if (parts.flat().includes(name.uuidPart)) return 'kept';
    const pool = await findPool(session);
    return pool !== null && (await deleteVolume(session, pool, target.volume)) ? 'deleted' : 'gone';
  } catch (error) {
    throw toProviderError(error, { op: 'gc', host: target.host });
  }
}

async function domainParts(context: ProviderContext, host: KvmHost): Promise<readonly string[]> {
  const session = await context.sessions.get(host);
  const { domains } = await session.call('connectListAllDomains', { needResults: 1, flags: 0 });
  return domains.map(partOf);
}

function partOf({ uuid }: DomainHandle): string {
  return uuidPart(formatUuid(uuid));
}

async function ownVolumes(
  context: ProviderContext,
  session: HostSession,
): Promise<readonly StorageVolHandle[]> {
  const pool = await findPool(session);
  if (pool === null) return [];
  const { vols } = await session.call('storagePoolListAllVolumes', { pool, needResults: 1, flags: 0 });
  return vols.filter(({ name }) => {
    const parsed = parseVolumeName(name);
    return parsed?.fleet === context.options.fleet && parsed.host === session.host.name;
  });
}

function describeOrphans(
  session: HostSession,
  volumes: readonly StorageVolHandle[],
): Promise<readonly OrphanVolume[]> {
  return mapBounded(volumes, IN_FLIGHT, async (vol) => ({
    host: session.host.name,
    volume: vol.name,
    modifiedAt: await modifiedAt(session, vol),
  }));
}

/** Null, which means "keep", when the volume cannot be described. */
async function modifiedAt(session: HostSession, vol: StorageVolHandle): Promise<number | null> {
  try {
    const { xml } = await session.call('storageVolGetXmlDesc', { vol, flags: 0 });
    return parseVolumeXml(xml).modifiedAt;
  } catch (error) {
    if (error instanceof LibvirtError) return null;
    throw error;
  }
}
