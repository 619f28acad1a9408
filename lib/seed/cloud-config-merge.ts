/**
 * Adds the guest agent to a cloud-config and changes nothing else: one entry at the end of `packages` and one at the
 * end of `runcmd`, each left out when the user has it. It cannot simply ride along as vendor-data: cloud-init drops a
 * vendor list whose key the user's document has too.
 */
import { isMap, isScalar, type ParsedNode, type YAMLMap, type YAMLSeq } from 'yaml';
import {
  addItem,
  addPairs,
  anchorOf,
  applyEdits,
  type Edit,
  fillValue,
  lineEnd,
  overlapsAnother,
  renderEntries,
  sealEnd,
} from './cloud-config-edits.ts';
import { findList, holdsAgent, type ListSource, type OwnList } from './cloud-config-lists.ts';
import { AGENT_ENTRIES, type AgentKey } from './guest-agent.ts';
import { checkMergeInstructions } from './merge-instructions.ts';
import { readPyYaml, type YamlDocument } from './pyyaml-document.ts';
import { MAPPING_TAG } from './pyyaml-scalars.ts';
import { scalarText, tagOf } from './pyyaml-tree.ts';
import { ReadingBudget } from './reading-budget.ts';
import { refusalAt } from './user-data-error.ts';

/** A cloud-config that cloud-init accepts, with what the agent's lists look like in it. */
export interface CloudConfig {
  readonly document: YamlDocument;
  /** Null for a document without content. */
  readonly root: YAMLMap.Parsed | null;
  readonly lists: Readonly<Record<AgentKey, ListSource>>;
}

export const CLOUD_CONFIG_HEADER = '#cloud-config';

/**
 * @param text a cloud-config, white space before its header and a byte-order mark already gone
 * @param budget of the whole that it is a part of
 * @throws UserDataError for what PyYAML or cloud-init would refuse
 */
export function readCloudConfig(text: string, budget = new ReadingBudget()): CloudConfig {
  const document = readPyYaml(text, budget);
  const { root } = document;
  if (root === null || isEmptyRoot(root)) {
    return { document, root: null, lists: { packages: { kind: 'absent' }, runcmd: { kind: 'absent' } } };
  }
  if (!isMap(root) || tagOf(root) !== MAPPING_TAG) {
    throw refusalAt(
      text,
      root.range[0],
      'a cloud-config is a mapping: lines of “key: value” at the top level',
    );
  }
  checkMergeInstructions(document, root);
  const lists = {
    packages: findList(document, root, 'packages'),
    runcmd: findList(document, root, 'runcmd'),
  };
  return { document, root, lists };
}

/** Whether the document says anything under this key, an empty value included: then a vendor's value does not count. */
export function hasKey(config: CloudConfig, key: AgentKey): boolean {
  return config.lists[key].kind !== 'absent';
}

/**
 * Adds the agent's entry under each of `keys`. Doing it again changes nothing.
 * @returns the new text, or null when the document cannot be added to in place (a list whose entries hold anchors is
 * needed at a second place); it then has to be delivered beside it
 */
export function addAgent(config: CloudConfig, keys: readonly AgentKey[]): string | null {
  const edits: Edit[] = [];
  const pairs: string[] = [];
  for (const key of keys) {
    const addition = planAddition(config.document, config.lists[key], key);
    if (addition === null) {
      return null;
    }
    edits.push(...addition.edits);
    pairs.push(...addition.pairs);
  }
  if (pairs.length > 0) {
    edits.push(addPairs(config.document, config.root, pairs));
  }
  const { text } = config.document;
  const seal = edits.some(({ start }) => start === text.length) ? sealEnd(config.document) : [];
  return seal === null || edits.some((edit) => overlapsAnother(edit, edits))
    ? null
    : applyEdits(text, [...seal, ...edits]);
}

/** The agent alone, for delivery beside a document that cannot be added to. */
export function agentCloudConfig(keys: readonly AgentKey[]): string {
  return `${[CLOUD_CONFIG_HEADER, ...keys.map((key) => `${key}: [${AGENT_ENTRIES[key]}]`)].join('\n')}\n`;
}

/**
 * The header as cloud-init's strictest readers want it: alone on the first line. A header that is written otherwise
 * (other case, with a comment behind it) stays below as the comment that it is.
 */
export function withStrictHeader(text: string): string {
  return /^#cloud-config\r?(?:\n|$)/.test(text) ? text : `${CLOUD_CONFIG_HEADER}${lineEnd(text)}${text}`;
}

interface Addition {
  readonly edits: readonly Edit[];
  /** Whole `key: value` pairs for the root mapping. */
  readonly pairs: readonly string[];
}

const NOTHING: Addition = { edits: [], pairs: [] };

function planAddition(document: YamlDocument, source: ListSource, key: AgentKey): Addition | null {
  const entry = AGENT_ENTRIES[key];
  if (source.kind === 'absent') {
    return { edits: [], pairs: [`${key}: [${entry}]`] };
  }
  const { list } = source;
  if (list !== null && holdsAgent(document, list, key)) {
    return NOTHING;
  }
  if (source.kind === 'own') {
    if (list === null) {
      const edit = fillValue(source.pair, `[${entry}]`);
      return edit === null ? null : { edits: [edit], pairs: [] };
    }
    const detached = detach(document, source, list);
    return detached === null ? null : { edits: [addItem(document, list, entry), ...detached], pairs: [] };
  }
  // The list belongs to another place: an alias or a merge key brings it here. This key gets a copy of its own.
  const entries = list === null ? [] : renderEntries(list);
  if (entries === null) {
    return null;
  }
  const copy = `[${[...entries, entry].join(', ')}]`;
  const alias = source.pair?.value;
  return alias
    ? { edits: [{ start: alias.range[0], end: alias.range[1], text: copy }], pairs: [] }
    : { edits: [], pairs: [`${key}: ${copy}`] };
}

/**
 * Keeps aliases of an anchored list from growing with it: the anchor moves to the first alias, which becomes a copy of
 * the list as it was.
 */
function detach(document: YamlDocument, { pair }: OwnList, list: YAMLSeq.Parsed): Edit[] | null {
  const alias = [...document.targets].find(([, target]) => target === list)?.[0];
  if (alias === undefined) {
    return [];
  }
  const anchor = anchorOf(pair);
  const entries = renderEntries(list);
  if (anchor === undefined || entries === null) {
    return null;
  }
  return [
    { start: anchor.offset, end: anchor.offset + anchor.source.length, text: '' },
    { start: alias.range[0], end: alias.range[1], text: `${anchor.source} [${entries.join(', ')}]` },
  ];
}

/** A document of comments only, or of `---` only. */
function isEmptyRoot(root: ParsedNode): boolean {
  return isScalar(root) && root.type === 'PLAIN' && scalarText(root) === '' && !root.anchor && !root.tag;
}
