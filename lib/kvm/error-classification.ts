/**
 * What the lower layers throw, as the contract's kinds: one table of libvirt codes, and each layer's own word on
 * whether a repeat can help. Nothing is ever decided by a message's text.
 */
import { ImageError } from '../image/image-error.ts';
import {
  ERROR_CODE,
  LibvirtAuthError,
  LibvirtError,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from '../libvirt/errors.ts';
import { XmlError } from '../libvirt/xml-tree.ts';
import { type ErrorKind, ProviderError } from '../provider/provider-error.ts';
import { PrivateKeyError } from '../ssh/private-key-error.ts';
import { SshError } from '../ssh/ssh-error.ts';

/** Codes that are not here are transient: an unknown refusal must neither end a create nor delete anything. */
const KIND_BY_CODE: ReadonlyMap<number, ErrorKind> = new Map([
  [ERROR_CODE.noMemory, 'exhausted'],
  [ERROR_CODE.noSupport, 'permanent'],
  [ERROR_CODE.invalidArg, 'permanent'],
  [ERROR_CODE.xmlError, 'permanent'],
  [ERROR_CODE.operationDenied, 'permanent'],
  [ERROR_CODE.xmlDetail, 'permanent'],
  [ERROR_CODE.noDomain, 'not-found'],
  [ERROR_CODE.authFailed, 'permanent'],
  [ERROR_CODE.noStoragePool, 'permanent'],
  [ERROR_CODE.configUnsupported, 'permanent'],
  [ERROR_CODE.argumentUnsupported, 'permanent'],
  [ERROR_CODE.operationUnsupported, 'permanent'],
  [ERROR_CODE.accessDenied, 'permanent'],
  [ERROR_CODE.cpuIncompatible, 'permanent'],
  [ERROR_CODE.xmlInvalidSchema, 'permanent'],
  [ERROR_CODE.authUnavailable, 'permanent'],
]);

/** errno in `int1` of a system error (code 38), from Linux's errno.h. */
const ERRNO = { ENOENT: 2, ENODEV: 19, ENOSPC: 28, EDQUOT: 122 } as const;
const KIND_BY_ERRNO: ReadonlyMap<number, ErrorKind> = new Map([
  // A disk that is not there yet, or not there any more: the work is unfinished, not impossible.
  [ERRNO.ENOENT, 'transient'],
  // The bridge does not exist on the host.
  [ERRNO.ENODEV, 'permanent'],
  [ERRNO.ENOSPC, 'exhausted'],
  [ERRNO.EDQUOT, 'exhausted'],
]);

export function hasCode(error: unknown, ...codes: readonly number[]): boolean {
  return error instanceof LibvirtError && codes.includes(error.code);
}

export function kindOf(error: unknown): ErrorKind {
  if (error instanceof ProviderError) return error.kind;
  if (error instanceof LibvirtAuthError) return 'permanent';
  if (error instanceof LibvirtError) {
    const byErrno = error.code === ERROR_CODE.systemError ? KIND_BY_ERRNO.get(error.int1) : undefined;
    return byErrno ?? KIND_BY_CODE.get(error.code) ?? 'transient';
  }
  if (error instanceof LibvirtTimeoutError) return 'timeout';
  // A forced command that cannot run ends the stream only after the tunnel stood: the cause knows.
  if (error instanceof LibvirtTransportError)
    return error.cause instanceof SshError ? kindOf(error.cause) : 'transient';
  if (error instanceof PrivateKeyError) return 'permanent';
  if (error instanceof ImageError && error.reason === 'no-space') return 'exhausted';
  if (error instanceof SshError || error instanceof ImageError)
    return error.retryable ? 'transient' : 'permanent';
  if (error instanceof XmlError) return 'permanent';
  if (error instanceof Error && error.name === 'AbortError') return 'timeout';
  return 'internal';
}

/** Wraps once: a ProviderError keeps its kind and gains what it does not say about where it happened. */
export function toProviderError(
  error: unknown,
  where: { readonly op: string; readonly host?: string; readonly id?: string },
): ProviderError {
  if (error instanceof ProviderError) {
    if (error.op !== undefined) return error;
    const { message, host = where.host, id = where.id, errors, cause } = error;
    return new ProviderError(error.kind, message, {
      op: where.op,
      ...(host === undefined ? {} : { host }),
      ...(id === undefined ? {} : { id }),
      errors,
      cause,
    });
  }
  const kind = kindOf(error);
  const at = where.host === undefined ? '' : `host ${where.host}: `;
  return new ProviderError(kind, `${at}${describe(error)}`, { ...where, cause: error });
}

/** An unforeseen error's text may hold anything, user-data included: it goes to no caller. */
function describe(error: unknown): string {
  return kindOf(error) === 'internal' || !(error instanceof Error) ? 'an unforeseen error' : error.message;
}
