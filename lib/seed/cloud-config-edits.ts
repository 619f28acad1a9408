/**
 * Where in the source text an addition to a YAML document goes. The document is never printed again: whatever a
 * printer does with comments, folding or the end of the file, here every byte the user wrote stays where it was.
 */
import {
  type CST,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import type { ParsedPair } from './cloud-config-lists.ts';
import type { YamlDocument } from './pyyaml-document.ts';
import { NULL_TAG, STRING_TAG } from './pyyaml-scalars.ts';
import { scalarText, tagOf } from './pyyaml-tree.ts';
import { quoteYaml } from './yaml-flow.ts';

/** Replaces `text.slice(start, end)`; `start === end` inserts. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Of two edits at one place the later in the list comes later in the text. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = '';
  let position = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    result += text.slice(position, edit.start) + edit.text;
    position = Math.max(position, edit.end);
  }
  return result + text.slice(position);
}

/** The document's own line end, so that a file from Windows stays one. */
export function lineEnd(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

/** Adds `key: value` lines (or pairs, for a root in braces) to the root mapping. */
export function addPairs(
  document: YamlDocument,
  root: YAMLMap.Parsed | null,
  pairs: readonly string[],
): Edit {
  const { text, end } = document;
  if (root !== null && isFlow(root)) {
    const start = root.range[0] + 1;
    return insertion(start, pairs.join(', ') + (root.items.length > 0 ? ', ' : ''));
  }
  const source = root?.srcToken;
  const indent = source?.type === 'block-map' ? ' '.repeat(source.indent) : '';
  return insertion(end, pairs.map((pair) => indent + pair + lineEnd(text)).join(''));
}

/** Adds an entry at the end of a list. */
export function addItem(document: YamlDocument, list: YAMLSeq.Parsed, item: string): Edit {
  const { text } = document;
  if (isFlow(list)) {
    return addFlowItem(list, item);
  }
  const indent = indentAt(text, list.range[0]);
  const line = `${indent}- ${item}${lineEnd(text)}`;
  // The list's range ends after its last value; a comment may follow on that line.
  const valueEnd = list.range[1];
  if (text[valueEnd - 1] === '\n') {
    return insertion(valueEnd, line);
  }
  const lineBreak = text.indexOf('\n', valueEnd);
  return lineBreak === -1 ? insertion(text.length, line) : insertion(lineBreak + 1, line);
}

/** Writes a value where a key has none (`packages:`) or null (`packages: ~`). */
export function fillValue(pair: ParsedPair, value: string): Edit | null {
  if (isScalar(pair.value) && scalarText(pair.value) !== '') {
    return { start: pair.value.range[0], end: pair.value.range[1], text: value };
  }
  const colon = pair.srcToken?.sep?.find((token) => token.type === 'map-value-ind');
  return colon === undefined ? null : { start: colon.offset, end: colon.offset + 1, text: `: ${value}` };
}

/**
 * A list's entries as one line, to stand at a second place. Null if they hold anchors, aliases or tags, which cannot
 * stand twice.
 */
export function renderEntries(list: YAMLSeq.Parsed): string[] | null {
  const entries = list.items.map(renderCopy);
  return entries.every((entry) => entry !== null) ? entries : null;
}

/** What has to change at the end of a text before lines are added there. Null where that cannot be told. */
export function sealEnd(document: YamlDocument): Edit[] | null {
  const { text, root } = document;
  if (text.endsWith('\n')) {
    return [];
  }
  const lineStart = text.lastIndexOf('\n') + 1;
  const last = root === null ? undefined : lastScalar(root);
  const token = last?.srcToken;
  if (token?.type !== 'block-scalar' || (last?.range?.[1] ?? 0) < text.length) {
    // Blanks on the last line belong to no value, but as a line of their own they could become one.
    const isBlank = text.slice(lineStart).trim() === '';
    return [
      isBlank ? { start: lineStart, end: text.length, text: '' } : insertion(text.length, lineEnd(text)),
    ];
  }
  // PyYAML gives a block scalar that ends with the text no final line break, and the line break that is added would
  // become its last character. So the scalar is told to strip it.
  const header = token.props.find((prop) => prop.type === 'block-scalar-header');
  if (header?.type !== 'block-scalar-header' || text.slice(lineStart).trim() === '') {
    return null;
  }
  const stripped = `${header.source.replace(/[+-]/, '')}-`;
  return [
    { start: header.offset, end: header.offset + header.source.length, text: stripped },
    insertion(text.length, lineEnd(text)),
  ];
}

export function overlapsAnother(edit: Edit, edits: readonly Edit[]): boolean {
  return edits.some((other) => other !== edit && other.start < edit.end && edit.start < other.end);
}

/** The anchor in front of a pair's value. */
export function anchorOf(pair: ParsedPair): CST.SourceToken | undefined {
  return pair.srcToken?.sep?.find((token) => token.type === 'anchor');
}

function insertion(start: number, text: string): Edit {
  return { start, end: start, text };
}

function indentAt(text: string, offset: number): string {
  return ' '.repeat(offset - (text.lastIndexOf('\n', offset - 1) + 1));
}

function isFlow(node: ParsedNode): boolean {
  return node.srcToken?.type === 'flow-collection';
}

/** Right behind the last entry, not before the bracket: that may stand on a line of its own, out of the block. */
function addFlowItem(list: YAMLSeq.Parsed, item: string): Edit {
  const last = list.items.at(-1);
  if (last === undefined) {
    return insertion(list.range[0] + 1, item);
  }
  const source = list.srcToken;
  const trailing = source?.type === 'flow-collection' ? source.items.at(-1) : undefined;
  const comma = trailing?.value ? undefined : trailing?.start.find((token) => token.type === 'comma');
  return comma === undefined
    ? insertion(last.range[1], `, ${item}`)
    : insertion(comma.offset + comma.source.length, ` ${item}`);
}

function renderCopy(node: ParsedNode): string | null {
  if (isScalar(node)) {
    return node.anchor === undefined && node.tag === undefined ? renderScalarCopy(node) : null;
  }
  if ((!isSeq(node) && !isMap(node)) || node.anchor !== undefined || node.tag !== undefined) {
    return null;
  }
  if (isSeq(node)) {
    const entries = renderEntries(node);
    return entries === null ? null : `[${entries.join(', ')}]`;
  }
  const pairs = node.items.map(({ key, value }) => {
    const [left, right] = [renderCopy(key), value === null ? 'null' : renderCopy(value)];
    return left === null || right === null ? null : `${left}: ${right}`;
  });
  return pairs.every((pair) => pair !== null) ? `{${pairs.join(', ')}}` : null;
}

function renderScalarCopy(node: Scalar.Parsed): string {
  const tag = tagOf(node);
  if (tag === STRING_TAG) {
    return quoteYaml(scalarText(node));
  }
  // As it was written: the type of a plain scalar is in its spelling. An empty one needs a word to stand for it.
  return tag === NULL_TAG ? 'null' : scalarText(node);
}

function lastScalar(node: ParsedNode): Scalar.Parsed | undefined {
  if (isScalar(node)) {
    return node;
  }
  const last = isSeq(node) ? node.items.at(-1) : isMap(node) ? node.items.at(-1)?.value : undefined;
  return last ? lastScalar(last) : undefined;
}
