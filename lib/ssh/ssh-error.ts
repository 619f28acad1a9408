/**
 * What can go wrong between us and the daemon's socket, as reasons a caller can act on. Retryability is data on the
 * reason: nobody reads messages. A key or a passphrase never appears in one of these errors.
 */

/** Each reason: whether the same attempt may succeed later without anyone changing anything. */
export const SSH_ERROR_REASONS = {
  /** No TCP connection: refused, no route, name not resolved. */
  unreachable: { retryable: true },
  /** The time allowed passed; the message says in which step. */
  timeout: { retryable: true },
  /** The server closed before we were logged in (sshd's MaxStartups does this, so does a restart). */
  'closed-early': { retryable: true },
  /** An established connection ended under us. */
  'connection-lost': { retryable: true },
  /** No common algorithm, a bad signature, or not SSH at all. */
  'handshake-failed': { retryable: false },
  /** known_hosts has no usable key for this host: there is no trust on first use. */
  'host-key-unknown': { retryable: false },
  /** The host presented another key than the ones on file. */
  'host-key-changed': { retryable: false },
  /** The host presented a key that is marked `@revoked`. */
  'host-key-revoked': { retryable: false },
  /** The server did not accept our key for this user. */
  'auth-refused': { retryable: false },
  /** sshd said that its policy forbids the forwarding. */
  'forward-prohibited': { retryable: false },
  /** sshd could not or would not connect to the socket: it does not say which. */
  'socket-unreachable': { retryable: true },
  /** virt-ssh-helper could not be started or ended with an error. */
  'helper-failed': { retryable: false },
  /** The caller's signal was aborted. */
  aborted: { retryable: false },
} as const satisfies Record<string, { retryable: boolean }>;

export type SshErrorReason = keyof typeof SSH_ERROR_REASONS;

export interface SshErrorOptions {
  readonly cause?: unknown;
  /** Overrides the reason's own, where the same reason can be either (the helper's exit codes). */
  readonly retryable?: boolean;
}

export class SshError extends Error {
  override readonly name = 'SshError';
  readonly reason: SshErrorReason;
  readonly retryable: boolean;

  constructor(reason: SshErrorReason, message: string, options: SshErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.retryable = options.retryable ?? SSH_ERROR_REASONS[reason].retryable;
  }
}
