/**
 * A domain's metadata as it is read. Anybody with access to the host may have edited it, so what cannot be read is as
 * if absent, and nothing here throws.
 */

import { childrenOf, type XmlElement } from '../libvirt/xml-tree.ts';
import { PHASES } from '../provider/instance.ts';
import {
  type AddressRecord,
  type DeletingRecord,
  type Identity,
  METADATA,
  type Metadata,
  type MetadataName,
  type PhaseRecord,
  REMAKING_URI,
  type ScrubRecord,
} from './metadata.ts';

/** Reads the elements below a domain's `<metadata>`. What cannot be read is as if absent; it never throws. */
export function parseMetadata(metadata: XmlElement | null): Metadata {
  const find = (name: MetadataName) =>
    metadata?.children.find((node) => node.uri === METADATA[name].uri) ?? null;
  const labels = find('labels');
  return {
    identity: parseIdentity(find('identity')),
    phase: parsePhase(find('phase')),
    startedAt: integer(find('started')?.attributes['at']),
    expiresAt: integer(find('lease')?.attributes['expiresAt']),
    labels: Object.fromEntries(
      (labels === null ? [] : childrenOf(labels, 'label')).map(({ attributes }) => [
        attributes['key'] ?? '',
        attributes['value'] ?? '',
      ]),
    ),
    // An element that is there but unreadable still protects: the safe side of a doubt is to keep.
    protected: find('protection') !== null,
    deleting: parseDeleting(find('deleting')),
    address: parseAddress(find('address')),
    scrub: parseScrub(find('scrub')),
    remakingSince: (metadata?.children ?? [])
      .filter(({ uri }) => uri?.startsWith(REMAKING_URI) === true)
      .map(({ attributes }) => integer(attributes['since']) ?? 0),
  };
}

function parseIdentity(node: XmlElement | null): Identity | null {
  if (node === null) return null;
  const at = node.attributes;
  const createdAt = integer(at['createdAt']);
  const seedBytes = integer(at['seedBytes']);
  const diskSizeGb = integer(at['diskSizeGb']);
  const { uuid, fleet, host, name, uid, image, machineType, baseVolume, seedDigest } = at;
  if (uuid === undefined || fleet === undefined || host === undefined || name === undefined) return null;
  if (uid === undefined || image === undefined || machineType === undefined || baseVolume === undefined)
    return null;
  if (seedDigest === undefined || createdAt === null || seedBytes === null || diskSizeGb === null)
    return null;
  return {
    uuid,
    fleet,
    host,
    name,
    uid,
    createdAt,
    image,
    machineType,
    diskSizeGb,
    autostart: at['autostart'] === 'true',
    baseVolume,
    seedBytes,
    seedDigest,
    scrub: at['scrub'] === 'true',
    requested: Object.fromEntries(
      childrenOf(node, 'requested').map(({ attributes }) => [
        attributes['field'] ?? '',
        attributes['value'] ?? '',
      ]),
    ),
  };
}

function parsePhase(node: XmlElement | null): PhaseRecord | null {
  const at = node?.attributes ?? {};
  const phase = PHASES.find((known) => known === at['phase']);
  const deadline = integer(at['deadline']);
  if (phase === undefined || phase === 'deleting' || deadline === null) return null;
  return {
    phase,
    seeded: at['seeded'] === 'true',
    startRefused: at['startRefused'] === 'true',
    attempt: integer(at['attempt']) ?? 0,
    deadline,
    error: at['error'] ?? null,
  };
}

function parseDeleting(node: XmlElement | null): DeletingRecord | null {
  if (node === null) return null;
  return {
    since: integer(node.attributes['since']) ?? 0,
    reason: node.attributes['reason'] ?? '',
    graceUntil: integer(node.attributes['graceUntil']),
  };
}

function parseAddress(node: XmlElement | null): AddressRecord | null {
  const { address, family, mac, source, ...rest } = node?.attributes ?? {};
  const seenAt = integer(rest['seenAt']);
  const runtimeId = integer(rest['runtimeId']);
  if (address === undefined || mac === undefined || seenAt === null || runtimeId === null) return null;
  return {
    address,
    family: family === 'ipv6' ? 'ipv6' : 'ipv4',
    mac,
    source: source === 'arp' ? 'arp' : 'agent',
    seenAt,
    runtimeId,
  };
}

/** An element that cannot be read still says that somebody began: no creator may store the whole seed again. */
function parseScrub(node: XmlElement | null): ScrubRecord | null {
  if (node === null) return null;
  return { since: integer(node.attributes['since']) ?? 0, doneAt: integer(node.attributes['doneAt']) };
}

/** At most 15 digits: as a time that is the year 33658, and a Date of 16 digits need not exist. */
function integer(text: string | undefined): number | null {
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
}
