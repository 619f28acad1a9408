/**
 * A request that is wrong in itself: it never reached a host. It carries every wrong place at once, so that a caller
 * corrects a request in one round, and the HTTP status where that is narrower than its kind's.
 */
import type { Fault } from '../provider/provider-error.ts';
import { ProviderError } from '../provider/provider-error.ts';

export interface RefusalOptions {
  readonly kind?: 'invalid-request' | 'not-found';
  /** Else the kind's own. */
  readonly status?: 400 | 404 | 405 | 413 | 415;
  readonly title?: string;
  /** Else made from the faults. */
  readonly detail?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** More are counted, not listed: a hostile body must not grow the answer past what the gateway carries. */
const MAX_FAULTS = 50;
const MAX_POINTER_LENGTH = 200;

export class RefusedRequest extends ProviderError {
  readonly status: number;
  readonly title: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(faults: readonly Fault[], options: RefusalOptions = {}) {
    const kind = options.kind ?? 'invalid-request';
    super(kind, options.detail ?? describe(faults), { errors: faults.slice(0, MAX_FAULTS).map(shorten) });
    this.status = options.status ?? (kind === 'not-found' ? 404 : 400);
    this.title = options.title;
    this.headers = options.headers ?? {};
  }
}

function describe(faults: readonly Fault[]): string {
  const [first] = faults;
  if (first === undefined) return 'the request is wrong';
  const { pointer, detail } = shorten(first);
  const rest = faults.length > 1 ? ` (and ${faults.length - 1} more)` : '';
  return `${pointer === '' ? '' : `${pointer} `}${detail}${rest}`;
}

function shorten(fault: Fault): Fault {
  if (fault.pointer.length <= MAX_POINTER_LENGTH) return fault;
  return { pointer: `${fault.pointer.slice(0, MAX_POINTER_LENGTH).toWellFormed()}…`, detail: fault.detail };
}
