/**
 * A message's lines, and those of them that part it, as Python's email package sees them. One pass over the text, and
 * nothing is copied: a message may be one line of a MiB or half a million empty ones.
 */
import { withoutTrailing } from './trailing-characters.ts';

/** Offsets in the body; `end` is behind the line's end. */
export interface BoundaryLine {
  readonly start: number;
  readonly end: number;
  readonly isClosing: boolean;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Lines with their ends. Python ends a line at a carriage return of its own, too. */
export function* mimeLines(text: string): Generator<string, void> {
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === LINE_FEED || (code === CARRIAGE_RETURN && text.charCodeAt(at + 1) !== LINE_FEED)) {
      yield text.slice(start, at + 1);
      start = at + 1;
    }
  }
  if (start < text.length) yield text.slice(start);
}

/** Blanks and tabs may stand behind a boundary; other white space makes it another line. */
export function* boundaryLines(body: string, boundary: string): Generator<BoundaryLine, void> {
  const delimiter = `--${boundary}`;
  const closing = `${delimiter}--`;
  let start = 0;
  for (const line of mimeLines(body)) {
    const end = start + line.length;
    if (line.startsWith('--')) {
      const content = withoutTrailing(withoutTrailing(line, '\r\n'), ' \t');
      if (content === delimiter || content === closing) yield { start, end, isClosing: content === closing };
    }
    start = end;
  }
}
