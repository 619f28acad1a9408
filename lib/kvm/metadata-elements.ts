/**
 * The elements of a domain's metadata as they are written: for the one define, and for virDomainSetMetadata after it.
 * Values stand in attributes and are ASCII: libxml2 keeps neither white space nor other characters there as they were.
 */

import { buildXml, type XmlInput } from '../libvirt/xml-tree.ts';
import {
  type AddressRecord,
  type DeletingRecord,
  type Identity,
  METADATA,
  type MetadataName,
  type PhaseRecord,
  type ScrubRecord,
} from './metadata.ts';

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

export function buildScrub({ since, doneAt }: ScrubRecord): XmlInput {
  return element('scrub', { since, doneAt: doneAt ?? undefined });
}

/** For remakingPlace(). */
export function buildRemaking(since: number): XmlInput {
  return { tag: 'remaking', attributes: { since: `${since}` } };
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

/** One line of printable ASCII, at most 300 characters: an error's text may come from anywhere. */
function asciiLine(text: string): string {
  return text
    .replace(/[^\x21-\x7e]+/g, ' ')
    .trim()
    .slice(0, 300);
}
