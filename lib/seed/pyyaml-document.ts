/**
 * Reads YAML for a consumer that reads it with PyYAML: YAML 1.1, safe loader, one document. The tree keeps every
 * scalar as it was written (failsafe schema: no value is interpreted) and the place of every token in the source.
 */
import { Composer, type CST, type ParsedNode, Parser, type YAMLParseError } from 'yaml';
import { indentContinuations } from './continuation-lines.ts';
import { checkCharacters, checkExtent, checkTokens } from './pyyaml-tokens.ts';
import { type AliasTargets, checkTree } from './pyyaml-tree.ts';
import { ReadingBudget } from './reading-budget.ts';
import { refusalAt, UserDataError } from './user-data-error.ts';

export interface YamlDocument {
  /** The source, in which some lines may be indented deeper; every position is one in this text. */
  readonly text: string;
  /** Null for a document without content. */
  readonly root: ParsedNode | null;
  readonly targets: AliasTargets;
  /** Where the content ends: at the end of the text, or before a `...` line. */
  readonly end: number;
}

/** The parser's own messages quote the source, which holds secrets; these stand for them. */
const PARSE_ERRORS: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias cannot have an anchor or a tag of its own',
  BAD_ALIAS: 'not the name of an anchor',
  BAD_DIRECTIVE: 'a directive that cannot be read',
  BAD_DQ_ESCAPE: 'not an escape sequence that YAML knows; a backslash in double quotes is written \\\\',
  BAD_INDENT: 'the indentation fits no surrounding block; continuation lines must be indented',
  BAD_SCALAR_START: 'a value cannot begin with this character; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'a mapping or list cannot begin on this line; a value that contains “: ” needs quotes',
  BLOCK_IN_FLOW: 'no block value inside [ ] or { }',
  KEY_OVER_1024_CHARS: 'a key longer than 1,024 characters',
  MISSING_CHAR: 'a quote, bracket, comma, colon or space is missing here or before',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line; is a colon missing in it, or a quote?',
  MULTIPLE_ANCHORS: 'a value can have one anchor only',
  MULTIPLE_TAGS: 'a value can have one tag only',
  TAB_AS_INDENT: 'a tab as indentation; use spaces',
  TAG_RESOLVE_FAILED: 'a tag that cannot be read',
};

/**
 * @param source without a byte-order mark
 * @param budget of the whole that this document is a part of
 * @throws UserDataError with line and column for whatever PyYAML would refuse
 */
export function readPyYaml(source: string, budget = new ReadingBudget()): YamlDocument {
  checkExtent(source, budget);
  checkCharacters(source);
  const text = indentContinuations(source, budget);
  const tokens = [...new Parser().parse(text)];
  for (const token of tokens) {
    checkTokens(text, token);
  }
  const documents = tokens.filter((token): token is CST.Document => token.type === 'document');
  const [first, second] = documents;
  if (first !== undefined && first.start.length === 0 && first.value === undefined) {
    throw refusalAt(text, first.offset, 'the end mark “...” without a document before it');
  }
  if (second !== undefined) {
    throw refusalAt(text, second.offset, 'a second YAML document; cloud-init reads one only');
  }

  const [document] = new Composer({
    schema: 'failsafe',
    keepSourceTokens: true,
    // Refused with both lines in checkTree, which also knows that `<<` may stand twice and that 1 and 0x1 are one key.
    uniqueKeys: false,
    // Else the parser would interpret !!binary and !!set itself.
    resolveKnownTags: false,
    prettyErrors: false,
  }).compose(tokens, true, text.length);
  if (document === undefined) {
    throw new UserDataError('not a YAML document');
  }
  const error = document.errors[0];
  if (error !== undefined) {
    throw refusalAt(text, error.pos[0], describe(error));
  }
  const root = document.contents;
  return {
    text,
    root,
    targets: root === null ? new Map() : checkTree(text, root, budget),
    end: tokens.find((token) => token.type === 'doc-end')?.offset ?? text.length,
  };
}

function describe(error: YAMLParseError): string {
  return PARSE_ERRORS[error.code] ?? 'not valid YAML here';
}
