/**
 * virNetMessageError: the payload of a reply whose status is ERROR. The client reads only its head strictly; a tail that
 * is missing or longer than known must not cost the caller the error code.
 */
import { type Infer, int32, option, Reader, struct, XdrError } from '@stellar/js-xdr';
import { ERROR_LEVEL } from './constants.ts';
import { LibvirtError } from './errors.ts';
import { domain, network } from './objects.ts';
import type { ProcedureName } from './protocol.ts';
import { optionalText } from './text.ts';

const headFields = { code: int32(), domain: int32(), message: optionalText() };
const tailFields = {
  level: int32(),
  dom: option(domain),
  str1: optionalText(),
  str2: optionalText(),
  str3: optionalText(),
  int1: int32(),
  int2: int32(),
  net: option(network),
};
const head = struct('remote_error_head', headFields);
const tail = struct('remote_error_tail', tailFields);

/** The whole structure, as a daemon encodes it. */
export const remoteError = struct('remote_error', { ...headFields, ...tailFields });
export type RemoteError = Infer<typeof remoteError>;

/** A complete structure from what matters, for a daemon's side. */
export function buildRemoteError(
  error: Pick<RemoteError, 'code' | 'domain' | 'message'> & Partial<RemoteError>,
): RemoteError {
  return {
    level: ERROR_LEVEL.error,
    dom: null,
    str1: null,
    str2: null,
    str3: null,
    int1: 0,
    int2: 0,
    net: null,
    ...error,
  };
}

/** @throws XdrError when not even code, domain and message can be read. */
export function decodeRemoteError(payload: Uint8Array, procedure: ProcedureName): LibvirtError {
  const reader = new Reader(payload);
  const { code, domain: errorDomain, message } = head._read(reader, 'remote_error');
  const { level, int1, int2 } = readTail(reader);
  return new LibvirtError({
    code,
    domain: errorDomain,
    level,
    message: cleanMessage(message ?? ''),
    int1,
    int2,
    procedure,
  });
}

function readTail(reader: Reader): Pick<RemoteError, 'level' | 'int1' | 'int2'> {
  try {
    return tail._read(reader, 'remote_error');
  } catch (error) {
    if (error instanceof XdrError) {
      return { level: ERROR_LEVEL.error, int1: 0, int2: 0 };
    }
    throw error;
  }
}

/** Messages end up in logs, in metadata and in HTTP answers: one line, no control characters. */
const cleanMessage = (message: string): string => message.replace(/[\p{Cc}\s]+/gu, ' ').trim();
