/**
 * What can be wrong with an image or its way to a host. The reason says which, and carries whether a repeat can help;
 * errors of the daemon itself (pool full, connection lost) are not wrapped and keep their own classes.
 */

/** Whether the same import may succeed later with nothing changed in the configuration. */
const RETRYABLE = {
  /** The configured URL or checksum is not one. */
  source: false,
  /** No answer from the server, or it went away. */
  unreachable: true,
  /** The source has no such image, or does not let us have it. */
  refused: false,
  /** The server answered that it cannot now (5xx, 408, 425, 429). */
  unavailable: true,
  /** It stopped sending in the middle. */
  stalled: true,
  /** It ended before the announced size. */
  truncated: true,
  /** It sent more than announced, or announced another size than the configuration. */
  'size-mismatch': false,
  /** Nobody says how large the image is. */
  'unknown-size': false,
  /** The bytes are not those that the configuration names. */
  checksum: false,
  /** Not a disk image, or of another format than declared. */
  format: false,
  /** A qcow2 header that would make the host open other files, or that points outside the image. */
  'unsafe-header': false,
  /** It did not arrive in the time that was left. */
  'too-slow': true,
  /** The pool has less room than the image needs. */
  'no-space': true,
} as const satisfies Record<string, boolean>;

export type ImageErrorReason = keyof typeof RETRYABLE;

export interface ImageErrorOptions {
  readonly cause?: unknown;
  /** Where the reason alone does not decide. */
  readonly retryable?: boolean;
}

export class ImageError extends Error {
  override readonly name = 'ImageError';
  readonly reason: ImageErrorReason;
  readonly retryable: boolean;

  constructor(reason: ImageErrorReason, message: string, options: ImageErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.retryable = options.retryable ?? RETRYABLE[reason];
  }
}
