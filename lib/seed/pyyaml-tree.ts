/**
 * Where PyYAML refuses a document that is well-formed YAML, seen on the parsed tree: tags without a constructor,
 * impossible values, keys that cannot be hashed, merge keys without a mapping. One thing is refused that PyYAML
 * takes: a key that stands twice, because it silently drops one of the two.
 */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import {
  implicitTag,
  keyIdentity,
  MAPPING_TAG,
  MERGE_TAG,
  SEQUENCE_TAG,
  STRING_TAG,
  scalarFault,
} from './pyyaml-scalars.ts';
import { READING_LIMITS, type ReadingBudget } from './reading-budget.ts';
import { refusalAt, type UserDataError } from './user-data-error.ts';

const SET_TAG = 'tag:yaml.org,2002:set';
const PAIR_LIST_TAGS: readonly string[] = ['tag:yaml.org,2002:omap', 'tag:yaml.org,2002:pairs'];

/** A node that is not an alias: what an anchor names. */
export type AnchoredNode = Scalar.Parsed | YAMLMap.Parsed | YAMLSeq.Parsed;

/** What each alias of the document stands for, found as PyYAML finds it: by anchors seen before it. */
export type AliasTargets = ReadonlyMap<ParsedNode, AnchoredNode>;

/** The tag PyYAML gives a node. */
export function tagOf(node: AnchoredNode): string {
  if (node.tag !== undefined && node.tag !== '!') {
    return node.tag;
  }
  if (isMap(node)) return MAPPING_TAG;
  if (isSeq(node)) return SEQUENCE_TAG;
  return isScalar(node) && node.type === 'PLAIN' && node.tag === undefined
    ? implicitTag(scalarText(node))
    : STRING_TAG;
}

/** The text of a scalar; with the failsafe schema every scalar is text, and a missing one is empty. */
export function scalarText(node: Scalar): string {
  return typeof node.value === 'string' ? node.value : '';
}

/** @throws UserDataError at the first node that PyYAML cannot construct */
export function checkTree(text: string, root: ParsedNode, budget: ReadingBudget): AliasTargets {
  const checker = new TreeChecker(text, budget);
  checker.check(root);
  return checker.targets;
}

class TreeChecker {
  readonly targets = new Map<ParsedNode, AnchoredNode>();
  readonly #text: string;
  readonly #anchors = new Map<string, AnchoredNode>();
  readonly #open = new Set<AnchoredNode>();
  /** How many entries a mapping has once its merge keys are replaced by what they bring. */
  readonly #entries = new Map<AnchoredNode, number>();
  readonly #budget: ReadingBudget;

  constructor(text: string, budget: ReadingBudget) {
    this.#text = text;
    this.#budget = budget;
  }

  check(node: ParsedNode): void {
    if (isAlias(node)) {
      this.#resolve(node);
      return;
    }
    this.#register(node);
    this.#open.add(node);
    if (isMap(node)) {
      this.#checkMapping(node);
    } else if (isSeq(node)) {
      this.#checkSequence(node);
    } else {
      this.#checkScalar(node);
    }
    this.#open.delete(node);
  }

  #resolve(alias: ParsedNode & { readonly source: string }): void {
    const target = this.#anchors.get(alias.source);
    if (target === undefined) {
      throw this.#refusal(alias, 'an alias for which no anchor stands before it');
    }
    if (isScalar(target) && !this.#budget.spend('aliasedCharacters', scalarText(target).length)) {
      throw this.#refusal(
        alias,
        `aliases that stand for more than ${READING_LIMITS.aliasedCharacters} characters in all`,
      );
    }
    if (isScalar(target) && tagOf(target) === MERGE_TAG) {
      throw this.#refusal(alias, 'an alias of a merge key <<; write << itself');
    }
    if (this.#open.has(target)) {
      throw this.#refusal(alias, 'an alias inside the value that it stands for');
    }
    this.targets.set(alias, target);
  }

  #register(node: AnchoredNode): void {
    const name = node.anchor;
    if (name === undefined) {
      return;
    }
    if (this.#anchors.has(name)) {
      throw this.#refusal(node, 'an anchor of this name stands before; cloud-init refuses it twice');
    }
    this.#anchors.set(name, node);
  }

  #checkScalar(node: Scalar.Parsed): void {
    const fault = scalarFault(tagOf(node), scalarText(node));
    if (fault !== null) {
      throw this.#refusal(node, fault);
    }
  }

  #checkSequence(node: YAMLSeq.Parsed): void {
    const tag = tagOf(node);
    if (tag !== SEQUENCE_TAG && !PAIR_LIST_TAGS.includes(tag)) {
      throw this.#refusal(node, 'a tag that cloud-init cannot read on a list');
    }
    for (const item of node.items) {
      this.check(item);
      if (tag !== SEQUENCE_TAG) {
        const pair = this.#target(item);
        if (!isMap(pair) || pair.items.length !== 1) {
          throw this.#refusal(item, 'an entry of !!omap or !!pairs is a mapping with exactly one key');
        }
      }
    }
  }

  #checkMapping(node: YAMLMap.Parsed): void {
    const tag = tagOf(node);
    if (tag !== MAPPING_TAG && tag !== SET_TAG) {
      throw this.#refusal(node, 'a tag that cloud-init cannot read on a mapping');
    }
    const seen = new Map<string, ParsedNode>();
    let entries = node.items.length;
    for (const { key, value } of node.items) {
      if (isScalar(key) && tagOf(key) === MERGE_TAG) {
        entries += this.#checkMerge(key, value);
        continue;
      }
      this.#checkKey(key, seen);
      if (value !== null) {
        this.check(value);
      }
    }
    this.#entries.set(node, entries);
  }

  #checkKey(node: ParsedNode, seen: Map<string, ParsedNode>): void {
    const isLoneEquals = isScalar(node) && node.type === 'PLAIN' && scalarText(node) === '=';
    if (isScalar(node) && isLoneEquals) {
      this.#register(node);
    } else {
      this.check(node);
    }
    const key = this.#target(node);
    if (!isScalar(key)) {
      throw this.#refusal(node, 'a list or mapping as a key; a value that begins with { or [ needs quotes');
    }
    const identity = isLoneEquals ? `${STRING_TAG} =` : keyIdentity(tagOf(key), scalarText(key));
    const first = seen.get(identity);
    if (first !== undefined) {
      const { line } = refusalAt(this.#text, first.range[0], '');
      throw this.#refusal(
        node,
        `the key ${quoteKey(scalarText(key))} stands here a second time (first in line ${line}); cloud-init would drop the first`,
      );
    }
    seen.set(identity, node);
  }

  /**
   * `<<` may stand several times in one mapping, and takes a mapping or a list of mappings.
   * @returns how many entries it brings; each mapping counts as one more, for it costs a step even when it is empty
   */
  #checkMerge(key: Scalar.Parsed, value: ParsedNode | null): number {
    this.#register(key);
    if (value !== null) {
      this.check(value);
    }
    const merged = value === null ? null : this.#target(value);
    const sources: readonly ParsedNode[] = isSeq(merged) ? merged.items : value === null ? [] : [value];
    let entries = 0;
    for (const source of sources) {
      const mapping = this.#target(source);
      if (!isMap(mapping)) break;
      const brought = 1 + (this.#entries.get(mapping) ?? 0);
      entries += brought;
      // The guest copies what a merge key brings, entry by entry, and every walk here follows it: merges of merges multiply,
      // and 400 bytes can stand for billions of entries.
      if (!this.#budget.spend('mergedEntries', brought)) {
        throw this.#refusal(
          key,
          `merge keys << that bring more than ${READING_LIMITS.mergedEntries} entries, those of merged mappings included`,
        );
      }
    }
    if (value === null || !sources.every((source) => isMap(this.#target(source)))) {
      throw this.#refusal(key, 'the merge key << needs a mapping or a list of mappings');
    }
    return entries;
  }

  #target(node: ParsedNode): AnchoredNode | undefined {
    return isAlias(node) ? this.targets.get(node) : node;
  }

  #refusal(node: ParsedNode, detail: string): UserDataError {
    return refusalAt(this.#text, node.range[0], detail);
  }
}

/** A key is named in an error so that it can be found; a long one is cut, for it may be no key at all. */
function quoteKey(key: string): string {
  return key.length <= 40 ? `“${key}”` : `“${key.slice(0, 40)}…”`;
}
