/**
 * The one error that leaves the provider. Lower layers throw their own; they are wrapped once, at the provider's
 * edge, with `cause`. What a caller may do about an error is data on its kind, not a guess at its text.
 */

/** HTTP status and retryability of each kind (docs: shared by problem details, SQS and direct invocation). */
export const ERROR_KINDS = {
  'invalid-request': { status: 400, retryable: false, title: 'The request is wrong' },
  'not-found': { status: 404, retryable: false, title: 'There is no such VM or host' },
  conflict: { status: 409, retryable: false, title: 'The name is taken, differs or is protected' },
  permanent: {
    status: 422,
    retryable: false,
    title: 'The configuration or the host cannot satisfy the request',
  },
  exhausted: { status: 503, retryable: true, title: 'The host has no room for it now' },
  transient: { status: 503, retryable: true, title: 'The host could not be reached or is busy' },
  timeout: { status: 504, retryable: true, title: 'The deadline passed' },
  internal: { status: 500, retryable: false, title: 'A defect in kvm-functions' },
} as const satisfies Record<string, { status: number; retryable: boolean; title: string }>;

export type ErrorKind = keyof typeof ERROR_KINDS;

/** One wrong place in the input. `pointer`: JSON pointer into the body, `?name` for a query, `{name}` for a path. */
export interface Fault {
  readonly pointer: string;
  readonly detail: string;
}

export interface ProviderErrorOptions {
  /** What was being done, in the API's words: `create`, `delete`, `list`. */
  readonly op?: string;
  readonly host?: string;
  readonly id?: string;
  readonly errors?: readonly Fault[];
  readonly cause?: unknown;
}

export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  readonly kind: ErrorKind;
  readonly op: string | undefined;
  readonly host: string | undefined;
  readonly id: string | undefined;
  readonly errors: readonly Fault[];

  constructor(kind: ErrorKind, message: string, options: ProviderErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.op = options.op;
    this.host = options.host;
    this.id = options.id;
    this.errors = options.errors ?? [];
  }

  get retryable(): boolean {
    return ERROR_KINDS[this.kind].retryable;
  }
}
