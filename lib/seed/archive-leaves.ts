/** The parts of a cloud-config-archive, as cloud-init takes the list apart. For looking at what an archive brings. */
import { isAlias, isMap, isScalar, isSeq, type ParsedNode } from 'yaml';
import type { MimeLeaf } from './mime-leaves.ts';
import { readPyYaml, type YamlDocument } from './pyyaml-document.ts';
import { MAPPING_TAG, MERGE_TAG, SEQUENCE_TAG, STRING_TAG } from './pyyaml-scalars.ts';
import { type AnchoredNode, scalarText, tagOf } from './pyyaml-tree.ts';
import type { ReadingBudget } from './reading-budget.ts';
import { hasKnownHeader } from './user-data-kind.ts';

/** An entry that is left to the guest: no such type is known. */
const UNREADABLE: MimeLeaf = { contentType: '', content: '' };

/** The entries of a cloud-config-archive: a text, or a mapping with `content` and perhaps `type`. */
export function archiveLeaves(text: string, budget: ReadingBudget): MimeLeaf[] {
  const document = readPyYaml(text, budget);
  const { root } = document;
  if (root === null) return [];
  // cloud-init takes a set for a list, too.
  if (!isSeq(root) || tagOf(root) !== SEQUENCE_TAG) return [UNREADABLE];
  const known = new Map<AnchoredNode | undefined, MimeLeaf>();
  return root.items.map((item) => {
    const entry = target(document, item);
    const leaf = known.get(entry) ?? archiveLeaf(document, entry);
    known.set(entry, leaf);
    return leaf;
  });
}

function archiveLeaf(document: YamlDocument, entry: AnchoredNode | undefined): MimeLeaf {
  if (isScalar(entry)) return tagOf(entry) === STRING_TAG ? sniffed(scalarText(entry)) : UNREADABLE;
  if (!isMap(entry) || tagOf(entry) !== MAPPING_TAG) return UNREADABLE;
  const fields = new Map<string, AnchoredNode | null | undefined>();
  for (const { key, value } of entry.items) {
    const name = target(document, key);
    if (!isScalar(name) || tagOf(name) === MERGE_TAG) return UNREADABLE;
    fields.set(scalarText(name), value === null ? null : target(document, value));
  }
  const [type, content] = ['type', 'content'].map((name) => textField(fields, name));
  if (type == null || content == null) return UNREADABLE;
  return type === '' ? sniffed(content) : { contentType: type.toLowerCase(), content };
}

/** Empty where there is no such field, null where it is no text: `!!binary` is decoded in the guest. */
function textField(
  fields: ReadonlyMap<string, AnchoredNode | null | undefined>,
  name: string,
): string | null {
  if (!fields.has(name)) return '';
  const node = fields.get(name);
  return isScalar(node) && tagOf(node) === STRING_TAG ? scalarText(node) : null;
}

/** An archive's entry without a type is a cloud-config unless its header says otherwise. */
function sniffed(content: string): MimeLeaf {
  return { contentType: hasKnownHeader(content) ? 'text/plain' : 'text/cloud-config', content };
}

function target(document: YamlDocument, node: ParsedNode): AnchoredNode | undefined {
  return isAlias(node) ? document.targets.get(node) : node;
}
