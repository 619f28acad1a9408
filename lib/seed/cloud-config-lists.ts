/**
 * The two lists of a cloud-config that the agent is added to: where their value comes from (the key itself, an alias,
 * a merge key) and whether cloud-init would take their shape.
 */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Pair,
  type ParsedNode,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { type AgentKey, isAgentPackage, startsAgent } from './guest-agent.ts';
import type { YamlDocument } from './pyyaml-document.ts';
import { MERGE_TAG, NULL_TAG, SEQUENCE_TAG, STRING_TAG } from './pyyaml-scalars.ts';
import { type AnchoredNode, scalarText, tagOf } from './pyyaml-tree.ts';
import { refusalAt } from './user-data-error.ts';
import { MAX_USER_DATA_BYTES } from './user-data-text.ts';

export type ParsedPair = Pair<ParsedNode, ParsedNode | null>;

/** The key has a value of its own; `list` is null while that value is empty. */
export interface OwnList {
  readonly kind: 'own';
  readonly pair: ParsedPair;
  readonly list: YAMLSeq.Parsed | null;
}

/** The value stands elsewhere: the key's pair holds an alias, or there is no pair and a merge key brings it. */
export interface BorrowedList {
  readonly kind: 'borrowed';
  readonly pair: ParsedPair | null;
  readonly list: YAMLSeq.Parsed | null;
}

/** How a key of the root mapping gets its list. */
export type ListSource = { readonly kind: 'absent' } | OwnList | BorrowedList;

const WRONG_LIST: Readonly<Record<AgentKey, string>> = {
  packages: 'packages must be a list',
  runcmd: 'runcmd must be a list of commands',
};

/**
 * Finds the list under `key` as PyYAML resolves it and checks its shape.
 * @throws UserDataError for a value that cloud-init's module would fail on
 */
export function findList(document: YamlDocument, root: YAMLMap.Parsed, key: AgentKey): ListSource {
  const pair = root.items.find((item) => isKey(item.key, key, document));
  const value = pair === undefined ? mergedValue(document, root, key) : pair.value;
  if (value === undefined) {
    return { kind: 'absent' };
  }
  const node = value === null ? null : target(document, value);
  const list = checkShape(document, value, node, key);
  const isOwn = pair !== undefined && !isAlias(pair.value);
  return isOwn ? { kind: 'own', pair, list } : { kind: 'borrowed', pair: pair ?? null, list };
}

/** Whether the list already brings the agent (`packages`) or starts it (`runcmd`). */
export function holdsAgent(document: YamlDocument, list: YAMLSeq.Parsed, key: AgentKey): boolean {
  const nodes = distinct(document, list).map(([node]) => node);
  return key === 'packages'
    ? packageNames(document, nodes).some(isAgentPackage)
    : [...commandLines(document, nodes)].some(startsAgent);
}

/** The node itself, or what it stands for if it is an alias. */
function target(document: YamlDocument, node: ParsedNode): AnchoredNode {
  const resolved = isAlias(node) ? document.targets.get(node) : node;
  if (resolved === undefined) {
    throw refusalAt(document.text, node.range[0], 'an alias for which no anchor stands before it');
  }
  return resolved;
}

/**
 * What stands in a list, each with the first item that stands for it: a list of aliases can name one long entry
 * thousands of times, and the answer for an entry is always the same.
 */
function distinct(document: YamlDocument, list: YAMLSeq.Parsed): [AnchoredNode, ParsedNode][] {
  const first = new Map<AnchoredNode, ParsedNode>();
  for (const item of list.items) {
    const node = target(document, item);
    if (!first.has(node)) first.set(node, item);
  }
  return [...first];
}

function textOf(document: YamlDocument, node: ParsedNode): string {
  const scalar = target(document, node);
  return isScalar(scalar) ? scalarText(scalar) : '';
}

function isKey(node: ParsedNode, key: string, document: YamlDocument): boolean {
  const scalar = target(document, node);
  return isScalar(scalar) && scalarText(scalar) === key;
}

/** PyYAML lets a later `<<` win over an earlier one, and within a list of mappings the first. */
function mergedValue(
  document: YamlDocument,
  map: YAMLMap.Parsed,
  key: string,
): ParsedNode | null | undefined {
  const merges = map.items.filter((item) => isScalar(item.key) && tagOf(item.key) === MERGE_TAG);
  for (const { value } of merges.toReversed()) {
    const merged = value === null ? null : target(document, value);
    for (const source of isSeq(merged) ? merged.items.map((item) => target(document, item)) : [merged]) {
      if (!isMap(source)) {
        continue;
      }
      const pair = source.items.find((item) => isKey(item.key, key, document));
      const found = pair === undefined ? mergedValue(document, source, key) : pair.value;
      if (found !== undefined) {
        return found;
      }
    }
  }
  return undefined;
}

function checkShape(
  document: YamlDocument,
  value: ParsedNode | null,
  node: AnchoredNode | null,
  key: AgentKey,
): YAMLSeq.Parsed | null {
  if (value === null || node === null || (isScalar(node) && isEmptyValue(node))) {
    return null;
  }
  if (!isSeq(node) || tagOf(node) !== SEQUENCE_TAG) {
    throw refusalAt(document.text, value.range[0], WRONG_LIST[key]);
  }
  for (const [, item] of distinct(document, node)) {
    const fault = key === 'packages' ? packageFault(document, item) : commandFault(document, item);
    if (fault !== null) {
      throw refusalAt(document.text, item.range[0], fault);
    }
  }
  return node;
}

/** Null without an anchor or a tag: only then can a list be written in its place. */
function isEmptyValue(node: Scalar.Parsed): boolean {
  return tagOf(node) === NULL_TAG && node.anchor === undefined && node.tag === undefined;
}

function packageFault(document: YamlDocument, item: ParsedNode): string | null {
  const node = target(document, item);
  if (isScalar(node)) {
    return tagOf(node) === STRING_TAG
      ? null
      : 'a package is a name; a number, boolean or empty entry needs quotes or goes';
  }
  if (isMap(node)) {
    const managers = node.items.every(({ value }) => value !== null && isSeq(target(document, value)));
    return managers
      ? null
      : 'a package entry that is a mapping names a package manager and its list of packages';
  }
  const [name] = node.items;
  const isPair = node.items.length <= 2 && name !== undefined && isString(document, name);
  return isPair ? null : 'a package entry that is a list holds a name and a version';
}

/** A mapping names package managers and their lists; a mapping within one of those is no package. */
function packageNames(document: YamlDocument, nodes: readonly AnchoredNode[]): string[] {
  const entries = nodes.filter((node) => !isMap(node));
  const values = nodes.filter((node) => isMap(node)).flatMap((node) => node.items.map(({ value }) => value));
  // Each list once, whatever number of mappings names it.
  for (const list of new Set(values.map((value) => (value === null ? null : target(document, value))))) {
    if (isSeq(list)) for (const [entry] of distinct(document, list)) entries.push(entry);
  }
  return entries.flatMap((entry) => packageName(document, entry));
}

/** Commands as lines, those of words joined. Aliases can make more text of them than the document has: that is left out. */
function* commandLines(document: YamlDocument, nodes: readonly AnchoredNode[]): Generator<string, void> {
  let left = MAX_USER_DATA_BYTES;
  for (const node of nodes) {
    const words = isSeq(node) ? node.items.map((word) => textOf(document, word)) : [textOf(document, node)];
    left -= words.reduce((length, word) => length + word.length, 0);
    if (left < 0) return;
    yield words.join(' ');
  }
}

function packageName(document: YamlDocument, node: AnchoredNode): string[] {
  if (isScalar(node)) {
    return [scalarText(node)];
  }
  return isSeq(node) ? node.items.slice(0, 1).map((name) => textOf(document, name)) : [];
}

function commandFault(document: YamlDocument, item: ParsedNode): string | null {
  const node = target(document, item);
  if (isSeq(node)) {
    const isVector = node.items.every((word) => isScalar(target(document, word)));
    return isVector ? null : 'a command that is a list holds its words only';
  }
  if (isScalar(node) && (tagOf(node) === STRING_TAG || tagOf(node) === NULL_TAG)) {
    return null;
  }
  return 'a command is a string or a list of words; one that contains “: ” needs quotes';
}

function isString(document: YamlDocument, node: ParsedNode): boolean {
  const scalar = target(document, node);
  return isScalar(scalar) && tagOf(scalar) === STRING_TAG;
}
