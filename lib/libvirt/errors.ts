/**
 * The errors of a libvirt connection. Which class it is says who failed: the daemon answered no (LibvirtError), it will
 * not let this account in (LibvirtAuthError), it did not answer in time (LibvirtTimeoutError), or the connection is gone
 * and nobody knows whether the call took place (LibvirtTransportError). An aborted signal rejects with its own reason.
 */
import { errorCodeName } from './error-codes.ts';
import type { ProcedureName } from './protocol.ts';

export { ERROR_CODE, errorCodeName } from './error-codes.ts';

/** virError as far as it helps to decide. `int1` is errno for code 38 (systemError). */
export interface LibvirtErrorDetail {
  readonly code: number;
  /** virErrorDomain: the part of libvirt that reported it (10 QEMU driver, 18 storage, 7 RPC, 20 domain …). */
  readonly domain: number;
  readonly level: number;
  /** One line, for people. Never match on it: libvirt translates and rewords. */
  readonly message: string;
  readonly int1: number;
  readonly int2: number;
  readonly procedure: ProcedureName;
}

/** The daemon answered the call with an error; the connection goes on. */
export class LibvirtError extends Error {
  override readonly name = 'LibvirtError';
  readonly code: number;
  readonly domain: number;
  readonly level: number;
  readonly int1: number;
  readonly int2: number;
  readonly procedure: ProcedureName;

  constructor(detail: LibvirtErrorDetail) {
    super(detail.message === '' ? `libvirt: ${errorCodeName(detail.code)}` : detail.message);
    this.code = detail.code;
    this.domain = detail.domain;
    this.level = detail.level;
    this.int1 = detail.int1;
    this.int2 = detail.int2;
    this.procedure = detail.procedure;
  }
}

/**
 * The byte stream ended, broke, or carried what is not libvirt's RPC. The connection is over; a call in flight may or
 * may not have been carried out. `cause` is what ended it.
 */
export class LibvirtTransportError extends Error {
  override readonly name = 'LibvirtTransportError';
}

/** The deadline of a call passed. The connection goes on; a late reply is dropped, and its effect on the host stands. */
export class LibvirtTimeoutError extends Error {
  override readonly name = 'LibvirtTimeoutError';
  readonly procedure: ProcedureName;
  readonly timeoutMs: number;

  constructor(procedure: ProcedureName, timeoutMs: number) {
    super(`no answer to ${procedure} within ${timeoutMs} ms`);
    this.procedure = procedure;
    this.timeoutMs = timeoutMs;
  }
}

/**
 * The daemon does not let this account in. `message` says what to do on the host; repeating the call does not help.
 * `authTypes` are those the daemon offers (AUTH_TYPE); `cause` is the daemon's own error, if it gave one.
 */
export class LibvirtAuthError extends Error {
  override readonly name = 'LibvirtAuthError';
  readonly authTypes: readonly number[];

  constructor(message: string, authTypes: readonly number[], options?: ErrorOptions) {
    super(message, options);
    this.authTypes = authTypes;
  }
}
