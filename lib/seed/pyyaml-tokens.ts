/**
 * Where the YAML 1.2 parser reads more than PyYAML does, seen on the source tokens: characters, tabs, line breaks
 * and plain scalars that one accepts and the other refuses, or would split differently. What passes here has the
 * same structure for both, which is what the merge relies on.
 */
import type { CST } from 'yaml';
import { isCutQuote } from './continuation-lines.ts';
import { READING_LIMITS, type ReadingBudget } from './reading-budget.ts';
import { refusalAt } from './user-data-error.ts';

/** PyYAML's reader refuses these wherever they stand, in comments too. */
const NOT_PRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  /[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

/** Line breaks to YAML 1.1 that YAML 1.2 takes for text. */
const OLD_LINE_BREAK = /\r(?!\n)|[\x85\u2028\u2029]/;

/** PyYAML recurses; at a few hundred levels it ends with a RecursionError. No configuration comes near this. */
const MAX_DEPTH = 100;

/** The characters PyYAML reads in a tag, plain or between < and >. */
const TAG = /^!(?:<[\w\-;/?:@&=+$,.!~*'()[\]%]+>|[\w\-;/?:@&=+$,.!~*'()[\]%]*)$/;

const MAX_KEY_CHARACTERS = 1024;

interface Visit {
  readonly token: CST.Token;
  readonly inFlow: boolean;
  readonly depth: number;
}

/** Parsing takes time and memory by the entry, not by the byte: large files in a configuration are few, long values. */
const ENTRY_MARK = /[\n,[{]|[-?:][ \t]/g;

/** @throws UserDataError for a text with more lines and entries than a configuration has */
export function checkExtent(text: string, budget: ReadingBudget): void {
  for (const match of text.matchAll(ENTRY_MARK)) {
    if (!budget.spend('entries')) {
      throw refusalAt(text, match.index, `more than ${READING_LIMITS.entries} lines and entries in all`);
    }
  }
}

/** @throws UserDataError for a character that PyYAML refuses */
export function checkCharacters(text: string): void {
  const match = NOT_PRINTABLE.exec(text);
  if (match !== null) {
    const code = match[0].codePointAt(0) ?? 0;
    throw refusalAt(
      text,
      match.index,
      `the control character U+${code.toString(16).toUpperCase().padStart(4, '0')} is not allowed in YAML; ` +
        'write it as an escape in double quotes',
    );
  }
}

/**
 * Visits every token with a stack of its own, so that deep nesting is a refusal and not a stack overflow.
 * @throws UserDataError at the first token that PyYAML would refuse or take for something else
 */
export function checkTokens(text: string, root: CST.Token): void {
  const pending: Visit[] = [{ token: root, inFlow: false, depth: 0 }];
  for (let visit = pending.pop(); visit !== undefined; visit = pending.pop()) {
    if (visit.depth > MAX_DEPTH) {
      throw refusalAt(text, visit.token.offset, `nested deeper than ${MAX_DEPTH} levels`);
    }
    checkToken(text, visit);
    // One by one: spreading a long list into a call would overflow the stack that this loop is there to spare.
    for (const child of children(visit).toReversed()) pending.push(child);
  }
}

function checkToken(text: string, { token, inFlow }: Visit): void {
  switch (token.type) {
    case 'space':
      refuse(text, token, /\t/, 'a tab between values; cloud-init allows spaces only');
      break;
    case 'comment':
      refuse(text, token, OLD_LINE_BREAK, 'this character ends the comment for cloud-init; remove it');
      break;
    case 'scalar':
      refuse(text, token, /\t/, 'a tab in an unquoted value; put the value in quotes');
      refuse(
        text,
        token,
        OLD_LINE_BREAK,
        'this character is a line break for cloud-init; put the value in quotes',
      );
      if (inFlow) {
        refuse(
          text,
          token,
          /\?|^:/,
          'cloud-init cannot read this character unquoted inside [ ] or { }; put the value in quotes',
        );
      }
      break;
    case 'single-quoted-scalar':
    case 'double-quoted-scalar':
      if (isCutQuote(token.source)) {
        throw refusalAt(text, token.offset, 'a quote that is opened here and never closed');
      }
      break;
    case 'block-scalar':
      refuse(
        text,
        token,
        OLD_LINE_BREAK,
        'this character is a line break for cloud-init; put the value in double quotes',
      );
      checkBlockIndentation(text, token);
      break;
    case 'anchor':
    case 'alias':
      if (!/^[&*][0-9A-Za-z_-]+$/.test(token.source)) {
        throw refusalAt(
          text,
          token.offset,
          'cloud-init allows only ASCII letters, digits, - and _ in the name of an anchor',
        );
      }
      break;
    case 'tag':
      if (!TAG.test(token.source) || !/[ \r\n]/.test(text[token.offset + token.source.length] ?? ' ')) {
        throw refusalAt(text, token.offset, 'a tag that cloud-init cannot read');
      }
      break;
    case 'byte-order-mark':
      throw refusalAt(text, token.offset, 'a byte-order mark inside the document; remove it');
    case 'directive':
      if (!/^%(?:YAML 1\.\d+\s*$|TAG )/.test(token.source)) {
        throw refusalAt(
          text,
          token.offset,
          'a directive that cloud-init cannot read; it knows %YAML 1.x and %TAG',
        );
      }
      break;
    case 'block-map':
    case 'flow-collection':
      for (const item of token.items) {
        checkKey(text, item, token.type === 'flow-collection');
      }
      break;
    default:
  }
}

/** A key without a `?` in front stands before its colon and on one line with it, and is not too long. */
function checkKey(text: string, { start, key, sep, value }: CST.CollectionItem, inFlow: boolean): void {
  const colon = sep?.findIndex((token) => token.type === 'map-value-ind') ?? -1;
  const colonToken = sep?.[colon];
  if (colonToken === undefined) {
    // The YAML 1.2 parser drops this value without a word.
    if (sep && value) {
      throw refusalAt(text, value.offset, 'a value without a colon before it');
    }
    return;
  }
  const question = start.find((token) => token.type === 'explicit-key-ind');
  if (question !== undefined) {
    if (!inFlow && columnOf(text, question.offset) !== columnOf(text, colonToken.offset)) {
      throw refusalAt(text, colonToken.offset, 'a colon in another column than the ? of its key');
    }
    return;
  }
  if (!key) {
    throw refusalAt(
      text,
      colonToken.offset,
      'a colon without a key before it; a value that contains “: ” needs quotes',
    );
  }
  if (/[\r\n\x85\u2028\u2029]/.test(text.slice(key.offset, colonToken.offset))) {
    throw refusalAt(
      text,
      key.offset,
      'a key must stand on one line with its colon; is a quote or comma missing?',
    );
  }
  if (colonToken.offset - key.offset > MAX_KEY_CHARACTERS) {
    throw refusalAt(text, key.offset, `a key longer than ${MAX_KEY_CHARACTERS} characters`);
  }
}

/** A tab in front of a block scalar's text ends the scalar for PyYAML, which then stumbles over the tab. */
function checkBlockIndentation(text: string, token: CST.BlockScalar): void {
  const lines = [...token.source.matchAll(/^( *)(.*)$/gm)];
  const content = lines.find(([, , rest = '']) => !/^(?:\t|\r?$)/.test(rest));
  const indent = content?.[1]?.length ?? 1;
  const tab = lines.find(([, spaces = '', rest = '']) => rest.startsWith('\t') && spaces.length < indent);
  if (tab !== undefined) {
    throw refusalAt(text, sourceOffset(token) + tab.index, 'a tab as indentation; use spaces');
  }
}

function refuse(
  text: string,
  token: { offset: number; source: string },
  pattern: RegExp,
  detail: string,
): void {
  const match = pattern.exec(token.source);
  if (match !== null) {
    throw refusalAt(text, token.offset + match.index, detail);
  }
}

function children({ token, inFlow, depth }: Visit): Visit[] {
  const below = (tokens: readonly (CST.Token | null | undefined)[], flow = inFlow, step = 1): Visit[] =>
    tokens.flatMap((child) => (child ? [{ token: child, inFlow: flow, depth: depth + step }] : []));
  switch (token.type) {
    case 'document':
      return below([...token.start, token.value, ...(token.end ?? [])]);
    case 'flow-collection':
      return [
        ...below(
          token.items.flatMap(({ start, key, sep, value }) => [...start, key, ...(sep ?? []), value]),
          true,
        ),
        ...below(token.end, inFlow),
      ];
    case 'block-map':
    case 'block-seq':
      return below(
        token.items.flatMap(({ start, key, sep, value }) => [...start, key, ...(sep ?? []), value]),
      );
    case 'block-scalar':
      return below(token.props);
    case 'alias':
    case 'scalar':
    case 'single-quoted-scalar':
    case 'double-quoted-scalar':
    case 'doc-end':
      return below(token.end ?? []);
    default:
      return [];
  }
}

function columnOf(text: string, offset: number): number {
  return offset - text.lastIndexOf('\n', offset - 1);
}

/** A block scalar's token begins at its header; its text comes after the line the header is on. */
function sourceOffset(token: CST.SourceToken | CST.FlowScalar | CST.BlockScalar): number {
  const header = token.type === 'block-scalar' ? token.props : [];
  return header.reduce((offset, prop) => offset + ('source' in prop ? prop.source.length : 0), token.offset);
}
