/**
 * YAML 1.2 wants the further lines of a quoted value or a bracket indented deeper than the block they stand in;
 * PyYAML lets them stand anywhere, and drops the blanks before them. So such lines are indented before parsing, which
 * changes nothing for the guest.
 */
import { CST, Lexer } from 'yaml';
import type { ReadingBudget } from './reading-budget.ts';
import { withoutTrailing } from './trailing-characters.ts';

/** Deeper than any block that these lines could stand in. */
const INDENT = ' '.repeat(100);

/** Each line costs one more pass; beyond these limits the document is refused for its indentation. */
const MAX_LINES = 100;
const MAX_CHARACTERS = 64 * 1024;

/** @returns the text with the same number of lines; as it was when nothing is cut short */
export function indentContinuations(text: string, budget: ReadingBudget): string {
  let result = text;
  for (let line = 0; line < MAX_LINES && result.length <= MAX_CHARACTERS; line++) {
    if (!budget.spend('lexedCharacters', result.length)) break;
    const cut = firstCut(result, budget);
    const lineStart = cut === null ? 0 : result.indexOf('\n', Math.max(0, cut - 1)) + 1;
    const rest = result.slice(lineStart);
    // At the end of the text or of the document something is really missing.
    if (lineStart === 0 || rest === '' || /^(?:---|\.\.\.)(?:\s|$)/.test(rest)) {
      break;
    }
    result = result.slice(0, lineStart) + INDENT + rest;
  }
  return result;
}

/**
 * Where the first quoted value or bracket ends without its closing mark. The lexer is asked and not the parser: it
 * stops at the first cut and recurses nowhere.
 */
function firstCut(text: string, budget: ReadingBudget): number | null {
  let offset = 0;
  let isUnquoted = false;
  for (const lexeme of new Lexer().lex(text)) {
    if (!budget.spend('lexemes')) return null;
    if (lexeme === CST.FLOW_END) {
      return offset;
    }
    if (lexeme === CST.SCALAR || lexeme === CST.DOCUMENT) {
      isUnquoted = lexeme === CST.SCALAR;
      continue;
    }
    offset += lexeme.length;
    if (!isUnquoted && isCutQuote(lexeme)) {
      return offset;
    }
    isUnquoted = false;
  }
  return null;
}

/** Whether a quoted value, which begins with its quote, has no closing one. */
export function isCutQuote(source: string): boolean {
  if (source.startsWith('"')) {
    const inner = source.slice(1, -1);
    const backslashes = inner.length - withoutTrailing(inner, '\\').length;
    return source.length === 1 || !source.endsWith('"') || backslashes % 2 === 1;
  }
  // A quote inside is written twice, so a closed value has an even number of them.
  return source.startsWith("'") && source.split("'").length % 2 === 0;
}
