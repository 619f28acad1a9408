/**
 * How an error looks outside: problem details (RFC 9457) for HTTP, an error named by its kind for a direct
 * invocation. Both are made from the same ProviderError, so the two ways in cannot disagree.
 */
import { ConfigError } from '../config/fault.ts';
import { ERROR_KINDS, type ErrorKind, type Fault, ProviderError } from '../provider/provider-error.ts';
import { RefusedRequest } from './refused-request.ts';

export interface Problem {
  /** `urn:kvm-functions:problem:<code>`. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorKind;
  readonly retryable: boolean;
  /** The Lambda request id, which every log line of the invocation carries. */
  readonly requestId: string;
  readonly errors?: readonly Fault[];
}

/** Seconds. A full host does not empty in the time in which a lost connection comes back. */
const RETRY_AFTER_SECONDS: Partial<Record<ErrorKind, number>> = { transient: 5, timeout: 5, exhausted: 60 };

/** What leaves the functions is always a ProviderError: anything else is a defect of ours, or of the deployment. */
export function asProviderError(error: unknown): ProviderError {
  if (error instanceof ProviderError) return error;
  if (error instanceof ConfigError) {
    return new ProviderError(
      'permanent',
      `the configuration of this deployment is wrong:\n${error.message}`,
      {
        cause: error,
      },
    );
  }
  return new ProviderError('internal', 'an unexpected error; the log tells more under this request id', {
    cause: error,
  });
}

export function problemOf(error: ProviderError, requestId: string): Problem {
  const { status, title, retryable } = ERROR_KINDS[error.kind];
  const refused = error instanceof RefusedRequest ? error : null;
  return {
    type: `urn:kvm-functions:problem:${error.kind}`,
    title: refused?.title ?? title,
    status: refused?.status ?? status,
    detail: error.message,
    code: error.kind,
    retryable,
    requestId,
    ...(error.errors.length > 0 && { errors: error.errors }),
  };
}

export function problemHeaders(error: ProviderError): Record<string, string> {
  const seconds = RETRY_AFTER_SECONDS[error.kind];
  return {
    'content-type': 'application/problem+json',
    ...(seconds !== undefined && { 'retry-after': String(seconds) }),
    ...(error instanceof RefusedRequest && error.headers),
  };
}

/**
 * The error that a direct invocation throws. `name` stands on the instance because minifiers rename classes, and the
 * Lambda runtime reports `error.name` as the errorType that Step Functions matches.
 */
export class InvocationError extends Error {
  override readonly name: string;
  readonly code: ErrorKind;
  readonly retryable: boolean;
  readonly errors: readonly Fault[];

  constructor(error: ProviderError) {
    const faults = error.errors.slice(1).map((fault) => `; ${fault.pointer} ${fault.detail}`);
    super(error.message + (error instanceof RefusedRequest ? faults.join('') : ''));
    this.name = pascalCase(error.kind);
    this.code = error.kind;
    this.retryable = error.retryable;
    this.errors = error.errors;
  }
}

function pascalCase(kind: ErrorKind): string {
  return kind.replace(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
