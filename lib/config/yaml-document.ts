/**
 * A YAML document as plain values, with the way back from a path to its line. Syntax faults are collected rather
 * than thrown; the value is there only when the syntax is sound, since a half-read tree gives misleading faults.
 */
import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml';
import { type ConfigFault, formatPath } from './fault.ts';

/** `ok` is false when the syntax is broken; a key that is repeated or cannot be one leaves the rest readable. */
export type YamlDocument = { readonly ok: false; readonly faults: readonly ConfigFault[] } | ReadableYaml;

export interface ReadableYaml {
  readonly ok: true;
  readonly value: unknown;
  readonly faults: readonly ConfigFault[];
  /** The line of the value at this path, or of its key; of the nearest enclosing value when there is none. */
  lineOf(path: readonly PropertyKey[], part?: 'key' | 'value'): number;
  /** Where this line (from 1) of the text at the path stands; null for a text whose lines are not the file's. */
  lineInText(path: readonly PropertyKey[], textLine: number): number | null;
}

interface Entry {
  readonly key: unknown;
  readonly value: unknown;
}

export function readYaml(text: string): YamlDocument {
  const lines = new LineCounter();
  // merge: `<<` is how hosts that differ only in name and address are written. uniqueKeys: keyFaults says which.
  const options = {
    lineCounter: lines,
    prettyErrors: false,
    merge: true,
    uniqueKeys: false,
    logLevel: 'error',
  } as const;
  const document = parseDocument(text, options);
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line);
  const syntaxFaults = [...document.errors, ...document.warnings].map((error) => ({
    path: '',
    line: lineAt(error.pos[0]),
    detail: describeSyntax(error),
  }));
  if (syntaxFaults.length > 0) return { ok: false, faults: withoutRepeats(syntaxFaults) };

  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    // Aliases without an anchor, and such as multiply into more nodes than any configuration has.
    const detail = unquoted(error instanceof Error ? error.message : String(error));
    return { ok: false, faults: [{ path: '', line: 1, detail }] };
  }

  const locate = (path: readonly PropertyKey[], part: 'key' | 'value') => {
    let node: unknown = document.contents;
    let offset = offsetOf(node) ?? 0;
    for (const [index, step] of path.entries()) {
      const entry = findEntry(document, node, step);
      if (entry === null) break;
      const wanted = part === 'key' && index === path.length - 1 ? entry.key : entry.value;
      node = entry.value;
      offset = offsetOf(wanted) ?? offsetOf(entry.key) ?? offset;
    }
    return { node, line: lineAt(offset) };
  };
  return {
    ok: true,
    value,
    faults: keyFaults(document).map(({ path, key, detail }) => ({
      path: formatPath(path),
      line: lineAt(offsetOf(key) ?? 0),
      detail,
    })),
    lineOf: (path, part = 'value') => locate(path, part).line,
    lineInText: (path, textLine) => {
      const { node, line } = locate(path, 'value');
      // A block begins below its `|`; a quoted text has its line ends written as \n.
      return isScalar(node) && node.type === 'BLOCK_LITERAL' ? line + textLine : null;
    },
  };
}

/** Where the parser's own words quote the file, or mean the parser's caller. */
const SYNTAX_WORDS: Partial<Record<ErrorCode, string>> = {
  BAD_DIRECTIVE: 'a directive that cannot be read',
  MULTIPLE_DOCS: 'a second document; a configuration is one',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAG_RESOLVE_FAILED: 'a tag that cannot be read',
};

function describeSyntax({ code, message }: YAMLError): string {
  return SYNTAX_WORDS[code] ?? unquoted(message);
}

/** What the parser stumbles over it quotes behind a colon. It may be a key that was pasted into the wrong place. */
function unquoted(message: string): string {
  return message.replace(/: .*/s, '');
}

/** A line with ten thousand brackets is wrong once. */
function withoutRepeats(faults: readonly ConfigFault[]): readonly ConfigFault[] {
  return [...new Map(faults.map((fault) => [`${fault.line} ${fault.detail}`, fault])).values()];
}

/**
 * `__proto__` would set a prototype or be skipped in silence, a mapping as a key is always a mistake, and of a
 * repeated key only the last would count.
 */
function keyFaults(document: Document.Parsed): { path: PropertyKey[]; key: unknown; detail: string }[] {
  const faults: { path: PropertyKey[]; key: unknown; detail: string }[] = [];
  visit(document, {
    Map(_, map, ancestors) {
      const parent = pathOf([...ancestors, map]);
      const seen = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key)) {
          faults.push({ path: parent, key, detail: 'has a key that is not a plain word' });
          continue;
        }
        const name = String(key.value);
        if (name === '__proto__') faults.push({ path: [...parent, name], key, detail: 'cannot be a key' });
        if (seen.has(name)) faults.push({ path: [...parent, name], key, detail: 'is there twice' });
        seen.add(name);
      }
    },
  });
  return faults;
}

/** The path to the last of these nodes, each of which holds the next. */
function pathOf(nodes: readonly unknown[]): PropertyKey[] {
  return nodes.flatMap((node, index): PropertyKey[] => {
    if (isPair(node)) return isScalar(node.key) ? [String(node.key.value)] : [];
    if (isSeq(node) && index + 1 < nodes.length) return [node.items.indexOf(nodes[index + 1])];
    return [];
  });
}

function findEntry(document: Document.Parsed, parent: unknown, step: PropertyKey): Entry | null {
  const node = isAlias(parent) ? parent.resolve(document) : parent;
  if (isSeq(node)) {
    const value = node.items[Number(step)];
    return value === undefined ? null : { key: value, value };
  }
  if (!isMap(node)) return null;
  // JSON paths know string keys only, whatever YAML made of `1:`.
  const own = node.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === String(step));
  if (own !== undefined) return own;
  for (const pair of node.items) {
    if (!isScalar(pair.key) || pair.key.source !== '<<') continue;
    const merged = isSeq(pair.value) ? pair.value.items : [pair.value];
    for (const source of merged) {
      const entry = findEntry(document, source, step);
      if (entry !== null) return entry;
    }
  }
  return null;
}

function offsetOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}
