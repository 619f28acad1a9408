/**
 * A VM as its domain: looked up, read, and its metadata written. Everything after the first look-up goes by UUID, so
 * that a name that was deleted and taken again is never touched by work meant for the one before.
 */
import {
  DOMAIN_AFFECT_CONFIG,
  DOMAIN_AFFECT_CURRENT,
  DOMAIN_METADATA_ELEMENT,
  DOMAIN_XML_INACTIVE,
} from '../libvirt/constants.ts';
import { ERROR_CODE } from '../libvirt/errors.ts';
import type { DomainHandle } from '../libvirt/objects.ts';
import { parseUuid } from '../libvirt/uuid.ts';
import type { XmlInput } from '../libvirt/xml-tree.ts';
import { type DomainDescription, parseDomainXml } from './domain-xml.ts';
import { hasCode } from './error-classification.ts';
import type { CallOptions, HostSession } from './host-session.ts';
import {
  type Identity,
  METADATA,
  type MetadataName,
  type MetadataPlace,
  type PhaseRecord,
} from './metadata.ts';
import { buildPhase, metadataText } from './metadata-elements.ts';
import { together } from './together.ts';

/** A domain and what its XML said when it was read. `handle.id` is the runtime id, -1 when it is not active. */
export interface Vm {
  /**
   * The host it was found on, by its name in the configuration. The identity's says where it was made, which its
   * volumes carry in their names; a host can be renamed since, and a VM moved.
   */
  readonly host: string;
  readonly handle: DomainHandle;
  readonly description: DomainDescription;
}

/** A VM of this fleet, with the identity that says so. */
export interface OwnVm extends Vm {
  readonly identity: Identity;
}

export async function findVmByName(session: HostSession, name: string): Promise<Vm | null> {
  return absentAsNull(async () => readVm(session, (await session.call('domainLookupByName', { name })).dom));
}

export async function findVmByUuid(session: HostSession, uuid: string): Promise<Vm | null> {
  return absentAsNull(async () =>
    readVm(session, (await session.call('domainLookupByUuid', { uuid: parseUuid(uuid) })).dom),
  );
}

/** One whose handle is known, in one round trip; its runtime id is another one since it was started. */
export async function findVmAgain(session: HostSession, handle: DomainHandle): Promise<Vm | null> {
  return absentAsNull(async () => {
    const [{ dom }, vm] = await together([
      session.call('domainLookupByUuid', { uuid: handle.uuid }),
      readVm(session, handle),
    ]);
    return { ...vm, handle: dom };
  });
}

/** XML_INACTIVE: the persistent definition, where every write of ours goes, whatever the state. */
export async function readVm(
  session: HostSession,
  handle: DomainHandle,
  limits: CallOptions = {},
): Promise<Vm> {
  const args = { dom: handle, flags: DOMAIN_XML_INACTIVE };
  const { xml } = await session.call('domainGetXmlDesc', args, limits);
  return { host: session.host.name, handle, description: parseDomainXml(xml) };
}

/**
 * Ours: the fleet matches and the identity's UUID is the domain's own. An administrator's clone carries a copy of the
 * metadata under another UUID and is foreign.
 */
export function asOwn(vm: Vm, fleet: string): OwnVm | null {
  const { identity } = vm.description.metadata;
  if (identity === null || identity.fleet !== fleet || identity.uuid !== vm.description.uuid) return null;
  return { ...vm, identity };
}

/** Null for one that is gone, and for one that is not ours. */
export async function findOwnByUuid(
  session: HostSession,
  uuid: string,
  fleet: string,
): Promise<OwnVm | null> {
  const vm = await findVmByUuid(session, uuid);
  return vm === null ? null : asOwn(vm, fleet);
}

/** Replaces one metadata element. Repeatable. @throws LibvirtError noDomain when the VM was deleted. */
export function writeMetadata(
  session: HostSession,
  handle: DomainHandle,
  name: MetadataName,
  element: XmlInput,
): Promise<void> {
  return writeElement(session, handle, METADATA[name], element);
}

/** As writeMetadata, at any place; null removes the element. */
export async function writeElement(
  session: HostSession,
  handle: DomainHandle,
  place: MetadataPlace,
  element: XmlInput | null,
): Promise<void> {
  const metadata = element === null ? null : metadataText(element);
  const args = { dom: handle, type: DOMAIN_METADATA_ELEMENT, metadata, ...place };
  try {
    await session.call('domainSetMetadata', { ...args, flags: DOMAIN_AFFECT_CONFIG });
  } catch (error) {
    // A domain that was undefined while it ran is transient: it has no persistent definition to write to.
    if (!hasCode(error, ERROR_CODE.operationInvalid)) throw error;
    await session.call('domainSetMetadata', { ...args, flags: DOMAIN_AFFECT_CURRENT });
  }
}

const RANK = { failed: 0, reserved: 1, seeded: 2, 'importing-image': 3, starting: 4, ready: 5 } as const;

/**
 * Moves the phase on. It is read just before it is written and never goes back: of two workers on one VM the slower
 * must not say `seeded` of a VM that the faster one has started, nor `failed` of one that is ready.
 *
 * @returns the phase that now stands. @throws LibvirtError noDomain when the VM was deleted.
 */
export async function advancePhase(
  session: HostSession,
  handle: DomainHandle,
  change: Pick<PhaseRecord, 'phase'> & Partial<PhaseRecord>,
): Promise<PhaseRecord> {
  const { metadata } = (await readVm(session, handle)).description;
  const current = metadata.phase ?? NO_PHASE;
  const isBehind =
    change.phase === 'failed' ? current.phase === 'ready' : RANK[change.phase] < RANK[current.phase];
  if (isBehind) return current;
  const next = { ...current, error: null, ...change };
  await writeMetadata(session, handle, 'phase', buildPhase(next));
  return next;
}

/** For a VM whose phase element somebody removed. */
const NO_PHASE: PhaseRecord = {
  phase: 'reserved',
  seeded: false,
  startRefused: false,
  attempt: 0,
  deadline: 0,
  error: null,
};

/** Null when the domain is not there, or not any more. */
export async function absentAsNull<T>(read: () => Promise<T | null>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noDomain)) return null;
    throw error;
  }
}
