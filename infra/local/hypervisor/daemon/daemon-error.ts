/**
 * Refusals in libvirt's own codes, error domains and errno values, as libvirt 9.0 gives them: a client that learns to
 * read this daemon must read the real one the same way. Texts follow the real ones closely enough to recognise them.
 */
import { ERROR_CODE } from '../../../../lib/libvirt/error-codes.ts';
import { buildRemoteError, type RemoteError } from '../../../../lib/libvirt/remote-error.ts';

/** virErrorDomain, as far as used here. */
export const ERROR_DOMAIN = {
  none: 0,
  xml: 5,
  rpc: 7,
  qemu: 10,
  storage: 18,
  domain: 20,
  interface: 26,
  streams: 38,
} as const;

export const ERRNO = { noEntry: 2, noDevice: 19, fileTooLarge: 27, noSpace: 28 } as const;

/** VIR_ERROR_MAX_LENGTH without its NUL: libvirt cuts what is longer, such as a message that quotes its caller. */
const MESSAGE_MAX_LENGTH = 1_023;

/** What a handler throws to answer a call with an error. Anything else it throws is a bug of this daemon. */
export class DaemonError extends Error {
  override readonly name = 'DaemonError';
  readonly remote: RemoteError;

  constructor(remote: Pick<RemoteError, 'code' | 'domain'> & Partial<RemoteError> & { message: string }) {
    super(remote.message);
    const { message, str1 = null, str2 = null, str3 = null } = remote;
    const texts = { message: cut(message), str1: cut(str1), str2: cut(str2), str3: cut(str3) };
    this.remote = buildRemoteError({ int1: -1, int2: -1, ...remote, ...texts });
  }
}

/** Half a surrogate pair at the cut could not be sent. */
const cut = (text: string | null): string | null => text?.slice(0, MESSAGE_MAX_LENGTH).toWellFormed() ?? null;

/** libvirt sends the format as str1 and its argument as str2. */
const formatted = (code: number, domain: number, prefix: string, detail: string): DaemonError =>
  new DaemonError({
    code,
    domain,
    message: `${prefix}: ${detail}`,
    str1: `${prefix}: %s`,
    str2: detail,
  });

export const internalError = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.internalError, domain, 'internal error', detail);

export const invalidArgument = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.invalidArg, domain, 'invalid argument', detail);

export const operationFailed = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.operationFailed, domain, 'operation failed', detail);

export const operationInvalid = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.operationInvalid, domain, 'Requested operation is not valid', detail);

export const configUnsupported = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.configUnsupported, domain, 'unsupported configuration', detail);

export const xmlError = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.xmlError, domain, 'XML error', detail);

export const notSupported = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.noSupport, domain, 'this function is not supported by the connection driver', detail);

export const argumentUnsupported = (domain: number, detail: string): DaemonError =>
  formatted(ERROR_CODE.argumentUnsupported, domain, 'argument unsupported', detail);

export const agentUnresponsive = (detail: string): DaemonError =>
  formatted(ERROR_CODE.agentUnresponsive, ERROR_DOMAIN.qemu, 'Guest agent is not responding', detail);

export const operationTimeout = (detail: string): DaemonError =>
  formatted(ERROR_CODE.operationTimeout, ERROR_DOMAIN.qemu, 'Timed out during operation', detail);

export const noMetadata = (): DaemonError =>
  formatted(
    ERROR_CODE.noDomainMetadata,
    ERROR_DOMAIN.domain,
    'metadata not found',
    'Requested metadata element is not present',
  );

export const noDomain = (detail: string): DaemonError =>
  formatted(ERROR_CODE.noDomain, ERROR_DOMAIN.qemu, 'Domain not found', detail);

export const noInterface = (detail: string): DaemonError =>
  formatted(ERROR_CODE.noInterface, ERROR_DOMAIN.interface, 'Interface not found', detail);

export const noStoragePool = (detail: string): DaemonError =>
  formatted(ERROR_CODE.noStoragePool, ERROR_DOMAIN.storage, 'Storage pool not found', detail);

export const noStorageVol = (detail: string): DaemonError =>
  formatted(ERROR_CODE.noStorageVol, ERROR_DOMAIN.storage, 'Storage volume not found', detail);

export const storageVolExists = (name: string): DaemonError =>
  new DaemonError({
    code: ERROR_CODE.storageVolExist,
    domain: ERROR_DOMAIN.storage,
    message: `storage volume '${name}' exists already`,
    str1: 'storage volume %s exists already',
    str2: `'${name}'`,
  });

/** A failed system call; `int1` is its errno, as libvirt sends it. */
export const systemError = (domain: number, errno: number, message: string): DaemonError =>
  new DaemonError({ code: ERROR_CODE.systemError, domain, message, str1: '%s', str2: message, int1: errno });

/** XML that does not parse. */
export const xmlSyntaxError = (domain: number, message: string): DaemonError =>
  new DaemonError({
    code: ERROR_CODE.xmlDetail,
    domain,
    message,
    str1: '%s',
    str2: message,
  });

/** A message that is no call this daemon can carry out. */
export const rpcError = (message: string): DaemonError =>
  new DaemonError({
    code: ERROR_CODE.rpc,
    domain: ERROR_DOMAIN.rpc,
    message,
    str1: '%s',
    str2: message,
  });

/** An argument that libvirt's public API layer refuses before any driver sees it (those carry int1 and int2 of 0). */
export const apiInvalidArgument = (domain: number, message: string): DaemonError =>
  new DaemonError({ code: ERROR_CODE.invalidArg, domain, message, int1: 0, int2: 0 });

/** @throws DaemonError invalidArg for a flag outside `supported`, naming the driver function as libvirt does. */
export function checkFlags(flags: number, supported: number, driverFunction: string, domain: number): void {
  const unknown = (flags & ~supported) >>> 0;
  if (unknown !== 0) {
    throw apiInvalidArgument(
      domain,
      `unsupported flags (0x${unknown.toString(16)}) in function ${driverFunction}`,
    );
  }
}
