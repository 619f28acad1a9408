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
const MERGER = /^(?:m_)?(?:dict|list|str)\(.*?\)$/;

/** @throws UserDataError for instructions that cloud-init cannot read */
export function checkMergeInstructions(document: YamlDocument, root: YAMLMap.Parsed): void {
  for (const { key, value } of root.items) {
    const isInstruction = isScalar(key) && ['merge_how', 'merge_type'].includes(scalarText(key));
    if (isInstruction && value !== null && !isReadable(document, value)) {
      throw refusalAt(
        document.text,
        value.range[0],
        'not merge instructions; cloud-init reads for example “list(append)+dict(no_replace,recurse_list)+str()”',
      );
    }
  }
}

function isReadable(document: YamlDocument, value: ParsedNode): boolean {
  const node = resolve(document, value);
  if (isScalar(node)) {
    return tagOf(node) === NULL_TAG || (tagOf(node) === STRING_TAG && areMergers(scalarText(node)));
  }
  return isSeq(node) && node.items.every((item) => isInstruction(document, item));
}

function areMergers(text: string): boolean {
  const mergers = text.split('+').map((merger) => merger.toLowerCase().trim().replaceAll('-', '_'));
  return mergers.every((merger) => merger === '' || MERGER.test(merger));
}

/** `{ name: list, settings: [append] }` or `[list, append]`. */
function isInstruction(document: YamlDocument, item: ParsedNode): boolean {
  const node = resolve(document, item);
  if (isSeq(node)) {
    const [name] = node.items;
    return name !== undefined && isMergerName(document, name);
  }
  if (!isMap(node)) {
    return false;
  }
  const fieldOf = (name: string) =>
    node.items.find(({ key }) => isScalar(key) && scalarText(key) === name)?.value ?? undefined;
  const [name, settings] = [fieldOf('name'), fieldOf('settings')];
  return name !== undefined && isMergerName(document, name) && isSeq(resolve(document, settings));
}

function isMergerName(document: YamlDocument, value: ParsedNode): boolean {
  const node = resolve(document, value);
  return isScalar(node) && /^(?:m_)?(?:dict|list|str)$/.test(scalarText(node).replaceAll('-', '_').trim());
}

function resolve(document: YamlDocument, node: ParsedNode | undefined): ParsedNode | undefined {
  return node !== undefined && isAlias(node) ? document.targets.get(node) : node;
}
