/**
 * All that is remembered about a VM, as elements of its domain's metadata: one element, with a namespace of its own,
 * per writer. virDomainSetMetadata replaces a whole element, so two writers that shared one would carry each other's
 * values away (measured: of 300 updates each of three writers, half were lost). Values stand in attributes and are
 * ASCII: libxml2 keeps neither white space nor other characters there exactly as they were written.
 */
import type { InstanceAddress, Phase } from '../provider/instance.ts';
import { PHASES } from '../provider/instance.ts';
import { buildXml, childrenOf, type XmlElement, type XmlInput } from './xml-tree.ts';

const NAMESPACE_ROOT = 'urn:kvm-functions:metadata';

/** Namespace URI and prefix (libvirt's `key`) of every element. The URI's last part is the element's version. */
export const METADATA = {
  identity: { uri: `${NAMESPACE_ROOT}:identity:1`, key: 'kvmfn-identity' },
  phase: { uri: `${NAMESPACE_ROOT}:phase:1`, key: 'kvmfn-phase' },
  started: { uri: `${NAMESPACE_ROOT}:started:1`, key: 'kvmfn-started' },
  lease: { uri: `${NAMESPACE_ROOT}:lease:1`, key: 'kvmfn-lease' },
  labels: { uri: `${NAMESPACE_ROOT}:labels:1`, key: 'kvmfn-labels' },
  protection: { uri: `${NAMESPACE_ROOT}:protection:1`, key: 'kvmfn-protection' },
  deleting: { uri: `${NAMESPACE_ROOT}:deleting:1`, key: 'kvmfn-deleting' },
  address: { uri: `${NAMESPACE_ROOT}:address:1`, key: 'kvmfn-address' },
} as const;
export type MetadataName = keyof typeof METADATA;

/** Written by the define, never again. */
export interface Identity {
  readonly uuid: string;
  readonly fleet: string;
  readonly host: string;
  readonly name: string;
  readonly uid: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly image: string;
  readonly machineType: string;
  readonly diskSizeGb: number;
  readonly autostart: boolean;
  readonly baseVolume: string;
  readonly seedBytes: number;
  /** SHA-256 of UUID and seed: salted, since metadata is readable over libvirt's read-only socket. */
  readonly seedDigest: string;
  /** The request as it was made, field by field; absent fields are left out. */
  readonly requested: Readonly<Record<string, string>>;
}

/** Written by create and its worker. */
export interface PhaseRecord {
  readonly phase: Exclude<Phase, 'deleting'>;
  /** The whole seed has been stored once; kept through `failed`, so that a resumed create need not have the request. */
  readonly seeded: boolean;
  /** libvirt refused the start with an error, so the guest never ran. */
  readonly startRefused: boolean;
  readonly attempt: number;
  /** Milliseconds since the epoch: when the create must have ended. */
  readonly deadline: number;
  readonly error: string | null;
}

/** Written by delete, once, never removed: it outranks every phase. */
export interface DeletingRecord {
  readonly since: number;
  readonly reason: string;
  /** Until when the guest may shut itself down; null when it was destroyed at once. */
  readonly graceUntil: number | null;
}

/** Written by whoever saw the address. */
export interface AddressRecord extends InstanceAddress {
  readonly seenAt: number;
  /** The domain's runtime id when it was seen: another one means a restart since. */
  readonly runtimeId: number;
}

export interface Metadata {
  readonly identity: Identity | null;
  readonly phase: PhaseRecord | null;
  /** When a start was first issued; written once, before it. */
  readonly startedAt: number | null;
  readonly expiresAt: number | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly protected: boolean;
  readonly deleting: DeletingRecord | null;
  readonly address: AddressRecord | null;
}

export function buildIdentity(identity: Identity): XmlInput {
  const { requested, ...fields } = identity;
  return element('identity', fields, [
    ...Object.entries(requested).map(([field, value]) => child('identity', 'requested', { field, value })),
  ]);
}

export function buildPhase(record: PhaseRecord): XmlInput {
  return element('phase', { ...record, error: record.error === null ? undefined : asciiLine(record.error) });
}

export function buildStarted(at: number): XmlInput {
  return element('started', { at });
}

export function buildLease(expiresAt: number): XmlInput {
  return element('lease', { expiresAt });
}

export function buildLabels(labels: Readonly<Record<string, string>>): XmlInput {
  return element(
    'labels',
    {},
    Object.entries(labels).map(([key, value]) => child('labels', 'label', { key, value })),
  );
}

export function buildProtection(): XmlInput {
  return element('protection', { keep: true });
}

export function buildDeleting(record: DeletingRecord): XmlInput {
  return element('deleting', {
    since: record.since,
    reason: asciiLine(record.reason),
    graceUntil: record.graceUntil ?? undefined,
  });
}

export function buildAddress(record: AddressRecord): XmlInput {
  return element('address', { ...record });
}

/** The text virDomainSetMetadata wants: libvirt adds the namespace from its `uri` and `key` arguments itself. */
export function metadataText(input: XmlInput): string {
  const bare = (node: XmlInput): XmlInput => ({
    ...node,
    tag: node.tag.slice(node.tag.indexOf(':') + 1),
    attributes: Object.fromEntries(
      Object.entries(node.attributes ?? {}).filter(([key]) => !key.startsWith('xmlns:')),
    ),
    children: (node.children ?? []).filter((inner) => inner !== null).map(bare),
  });
  return buildXml(bare(input));
}

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

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

function element(name: MetadataName, attributes: Attributes, children: readonly XmlInput[] = []): XmlInput {
  const { key, uri } = METADATA[name];
  return { ...child(name, name, { [`xmlns:${key}`]: uri, ...attributes }), children };
}

function child(name: MetadataName, tag: string, attributes: Attributes): XmlInput {
  const written = Object.entries(attributes).map(([key, value]) => [
    key,
    value === undefined ? value : `${value}`,
  ]);
  return { tag: `${METADATA[name].key}:${tag}`, attributes: Object.fromEntries(written) };
}

/** At most 15 digits: as a time that is the year 33658, and a Date of 16 digits need not exist. */
function integer(text: string | undefined): number | null {
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
}

/** One line of printable ASCII, at most 300 characters: an error's text may come from anywhere. */
function asciiLine(text: string): string {
  return text
    .replace(/[^\x21-\x7e]+/g, ' ')
    .trim()
    .slice(0, 300);
}
