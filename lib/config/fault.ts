/**
 * One wrong place in a configuration file, and the error that carries all of them. The detail never quotes a value
 * of the file: a private key pasted into the wrong field must not reach a log.
 */

export interface ConfigFault {
  /** `hosts[1].bridge`; empty for the file as a whole. */
  readonly path: string;
  /** Counted from 1. */
  readonly line: number;
  readonly detail: string;
}

/** A fault before its place in the document is known as a line. */
export interface PlacedFault {
  readonly path: readonly PropertyKey[];
  /** Which part of the entry is wrong; the value unless said otherwise. */
  readonly part?: 'key' | 'value';
  /** For a text of several lines: the one that is wrong, counted from 1. */
  readonly textLine?: number;
  readonly detail: string;
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly file: string;
  readonly faults: readonly ConfigFault[];

  constructor(file: string, faults: readonly ConfigFault[], options?: ErrorOptions) {
    super(faults.map((fault) => formatFault(file, fault)).join('\n'), options);
    this.file = file;
    this.faults = faults;
  }
}

/** `config.yaml:12: hosts[1].bridge: is missing`, which editors turn into a link. */
export function formatFault(file: string, fault: ConfigFault): string {
  const place = fault.path === '' ? '' : `${fault.path}: `;
  return `${file}:${fault.line}: ${place}${fault.detail}`;
}

/** Keys that are not plain words are quoted, so that a dot in a key does not read as a level. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      if (!/^[\w-]+$/.test(String(part))) return `[${JSON.stringify(String(part))}]`;
      return index === 0 ? String(part) : `.${String(part)}`;
    })
    .join('');
}
