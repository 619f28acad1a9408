/**
 * Step ① of a create: the domain is defined, once, with a fresh random UUID and paths of volumes that do not exist
 * yet. From here on everything the create may leave behind can be found from the domain. The name is reserved by
 * libvirt itself: a second define of it carries another UUID and is refused.
 */
import { ERROR_CODE } from '../libvirt/errors.ts';
import { buildDomainXml, parseDomainXml } from './domain-xml.ts';
import { hasCode } from './error-classification.ts';
import type { HostSession } from './host-session.ts';
import { macFromUuid } from './mac-address.ts';
import type { Identity } from './metadata.ts';
import { buildIdentity, buildLabels, buildLease, buildPhase, buildProtection } from './metadata-elements.ts';
import type { Pool } from './pool.ts';
import { type ProviderContext, sendWork } from './provider-context.ts';
import type { ResolvedRequest } from './resolve-request.ts';
import { seedDigest, specificationOf } from './specification.ts';
import type { OwnVm } from './vm.ts';
import { buildVmSeed } from './vm-seed.ts';
import { volumeName } from './volume-names.ts';

/** The continuation's delay: time enough for this invocation to finish by itself, and soon enough after its death. */
export const CONTINUATION_SECONDS = 60;

export interface Reservation {
  /** As it was defined. */
  readonly vm: OwnVm;
  readonly seed: Uint8Array;
}

/**
 * Only a create calls this, and only for a name it just looked up as absent: define is an upsert, and one with a known
 * UUID would replace all metadata and bring a deleted VM back.
 *
 * @returns null when the name was taken in between; the code (9) decides nothing by itself, so look the name up.
 */
export async function reserve(
  context: ProviderContext,
  session: HostSession,
  { targetPath }: Pool,
  resolved: ResolvedRequest,
): Promise<Reservation | null> {
  const { options } = context;
  const { request, host } = resolved;
  const uuid = options.randomUuid();
  const createdAt = options.now();
  const uid = request.uid ?? options.randomUuid();
  const seed = buildVmSeed(resolved, { uuid, uid, createdAt });
  const identity: Identity = {
    uuid,
    fleet: options.fleet,
    host: host.name,
    name: request.name,
    uid,
    createdAt,
    image: request.placement.image,
    machineType: request.placement.machineType,
    diskSizeGb: resolved.diskSizeGb,
    autostart: request.autostart !== false,
    baseVolume: resolved.baseVolume,
    seedBytes: seed.length,
    seedDigest: seedDigest(uuid, seed),
    scrub: resolved.scrub,
    requested: specificationOf(request, uuid),
  };
  const xml = buildDomainXml({
    name: request.name,
    uuid,
    host,
    machineType: resolved.machineType,
    mac: macFromUuid(uuid),
    diskPath: `${targetPath}/${volumeName(identity, 'disk')}`,
    seedPath: `${targetPath}/${volumeName(identity, 'seed')}`,
    metadata: initialMetadata(context, resolved, identity),
  });
  // Before the define, so that no VM exists whose continuation was never sent; one without a VM finds nothing to do.
  await sendWork(context, 'create', host.name, identity, CONTINUATION_SECONDS);
  try {
    const { dom } = await session.call('domainDefineXml', { xml });
    const vm = { host: host.name, handle: dom, description: parseDomainXml(xml), identity };
    return { vm, seed };
  } catch (error) {
    if (hasCode(error, ERROR_CODE.operationFailed, ERROR_CODE.domExist)) return null;
    throw error;
  }
}

function initialMetadata(context: ProviderContext, { request }: ResolvedRequest, identity: Identity) {
  const { ttlSeconds, labels = {} } = request;
  const deadline = identity.createdAt + context.options.deadlines.createSeconds * 1000;
  return [
    buildIdentity(identity),
    buildPhase({ phase: 'reserved', seeded: false, startRefused: false, attempt: 0, deadline, error: null }),
    ...(ttlSeconds === undefined ? [] : [buildLease(identity.createdAt + ttlSeconds * 1000)]),
    ...(Object.keys(labels).length === 0 ? [] : [buildLabels(labels)]),
    ...(request.protected === true ? [buildProtection()] : []),
  ];
}
