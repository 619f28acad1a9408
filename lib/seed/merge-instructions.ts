/**
 * `merge_how` and `merge_type` of a cloud-config: how it merges with other parts. They are read before anything else
 * of the document, and one that cannot be read makes cloud-init drop the whole of it.
 */
import { isAlias, isMap, isScalar, isSeq, type ParsedNode, type YAMLMap } from 'yaml';
import type { YamlDocument } from './pyyaml-document.ts';
import { NULL_TAG, STRING_TAG } from './pyyaml-scalars.ts';
import { scalarText, tagOf } from './pyyaml-tree.ts';
import { refusalAt } from './user-data-error.ts';

/** `list(append)`, in cloud-init's own pattern; options it does not know it ignores. */
const MERGER = /^(?:m_)?(dict|list|str)\(.*?\)$/;

/** @throws UserDataError for instructions that cloud-init cannot read, or with which it would keep nothing */
export function checkMergeInstructions(document: YamlDocument, root: YAMLMap.Parsed): void {
  for (const { key, value } of root.items) {
    if (value === null || !isScalar(key) || !['merge_how', 'merge_type'].includes(scalarText(key))) {
      continue;
    }
    const mergers = readMergers(document, value);
    // Without a merger for mappings the document, itself a mapping, is not taken over.
    if (mergers === null || (mergers.length > 0 && !mergers.includes('dict'))) {
      throw refusalAt(
        document.text,
        value.range[0],
        'not merge instructions; cloud-init reads for example “list(append)+dict(no_replace,recurse_list)+str()”',
      );
    }
  }
}

/** The names of the mergers, or null if they cannot be read. */
function readMergers(document: YamlDocument, value: ParsedNode): string[] | null {
  const node = resolve(document, value);
  if (isScalar(node)) {
    return tagOf(node) === NULL_TAG ? [] : readText(tagOf(node) === STRING_TAG ? scalarText(node) : '!');
  }
  // Each only once: aliases can name one long entry thousands of times.
  const items = isSeq(node) ? [...new Set(node.items.map((item) => resolve(document, item)))] : [undefined];
  const names = items.map((item) => readItem(document, item));
  return names.every((name) => name !== null) ? names : null;
}

function readText(text: string): string[] | null {
  const mergers = text
    .split('+')
    .map((merger) => merger.toLowerCase().trim().replaceAll('-', '_'))
    .filter((merger) => merger !== '');
  const names = mergers.map((merger) => MERGER.exec(merger)?.[1] ?? null);
  return names.every((name) => name !== null) ? names : null;
}

/** `{ name: list, settings: [append] }` or `[list, append]`. */
function readItem(document: YamlDocument, node: ParsedNode | undefined): string | null {
  if (isSeq(node)) {
    return mergerName(document, node.items[0]);
  }
  if (!isMap(node)) {
    return null;
  }
  const fieldOf = (name: string) =>
    node.items.find(({ key }) => isScalar(key) && scalarText(key) === name)?.value ?? undefined;
  return isSeq(resolve(document, fieldOf('settings'))) ? mergerName(document, fieldOf('name')) : null;
}

function mergerName(document: YamlDocument, value: ParsedNode | undefined): string | null {
  const node = resolve(document, value);
  const name = isScalar(node) ? scalarText(node).replaceAll('-', '_').trim() : '';
  return /^(?:m_)?(dict|list|str)$/.exec(name)?.[1] ?? null;
}

function resolve(document: YamlDocument, node: ParsedNode | undefined): ParsedNode | undefined {
  return node !== undefined && isAlias(node) ? document.targets.get(node) : node;
}
