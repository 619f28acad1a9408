/**
 * Why user-data or vendor-data is refused. The text never quotes what was sent beyond the name of a key: user-data
 * holds secrets, and errors travel into logs and answers.
 */

export type RefusedDocument = 'user-data' | 'vendor-data';

export interface UserDataErrorOptions {
  /** Counted from 1; a column counts characters. */
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  /** What the caller sent (the default), or the operator's own `vendorData`. */
  readonly document?: RefusedDocument;
}

export class UserDataError extends Error {
  override readonly name = 'UserDataError';
  /** A sentence without the position. */
  readonly detail: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
  readonly document: RefusedDocument;

  constructor(detail: string, options: UserDataErrorOptions = {}) {
    const { line, column, document = 'user-data' } = options;
    const place =
      line === undefined ? '' : `line ${line}${column === undefined ? '' : `, column ${column}`}: `;
    super(`${document}: ${place}${detail}`);
    this.detail = detail;
    this.line = line;
    this.column = column;
    this.document = document;
  }
}

/** @param offset an index into `text`; a line ends with `\n` */
export function refusalAt(text: string, offset: number, detail: string): UserDataError {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return new UserDataError(detail, {
    line: before.split('\n').length,
    column: [...before.slice(lineStart)].length + 1,
  });
}

/**
 * Runs `read` on a part of a document and gives its refusals the position in the whole.
 * @param skippedLines how many lines of the whole stand before the part
 */
export function inDocument<Result>(
  document: RefusedDocument,
  skippedLines: number,
  read: () => Result,
): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof UserDataError)) {
      throw error;
    }
    const line = error.line === undefined ? undefined : error.line + skippedLines;
    throw new UserDataError(error.detail, { line, column: error.column, document });
  }
}
