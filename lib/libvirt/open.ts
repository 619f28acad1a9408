/**
 * How a session begins. OPEN is sent first, because most daemons let the client in without a word about authentication
 * and the round trip of AUTH_LIST is saved; one that wants it answers 39 and leaves the connection usable. A second OPEN
 * after a successful one breaks the session, so it is repeated only after that refusal.
 */
import { AUTH_TYPE } from './constants.ts';
import { ERROR_CODE, LibvirtAuthError, LibvirtError } from './errors.ts';
import type { CallOptions, RpcClient } from './rpc-client.ts';

const ADVICE =
  'On the host, add the account to the group of unix_sock_group in libvirtd.conf (Debian: usermod -aG libvirt ACCOUNT), ' +
  'or let a polkit rule allow it org.libvirt.unix.manage, or set auth_unix_rw = "none" in libvirtd.conf.';

/** Refusals that no repetition changes. */
const REFUSALS: ReadonlySet<number> = new Set([
  ERROR_CODE.operationDenied,
  ERROR_CODE.authFailed,
  ERROR_CODE.authCancelled,
  ERROR_CODE.accessDenied,
  ERROR_CODE.authUnavailable,
]);

/** `options.timeoutMs` is for the whole of it. @throws LibvirtAuthError when the daemon does not let this account in. */
export async function openSession(
  client: RpcClient,
  uri: string,
  { signal, timeoutMs }: { readonly signal: AbortSignal | undefined; readonly timeoutMs: number },
): Promise<void> {
  const startedAt = performance.now();
  const options = (): CallOptions => ({ signal, timeoutMs: timeoutMs - (performance.now() - startedAt) });
  const open = (): Promise<void> => client.call('connectOpen', { name: uri, flags: 0 }, options());
  try {
    await open();
  } catch (refusal) {
    if (!isCode(refusal, ERROR_CODE.rpc)) {
      throw asAuthError(refusal, []);
    }
    const types = await authenticate(client, refusal, options);
    await open().catch((again: unknown) => {
      throw asAuthError(again, types);
    });
  }
}

/** Resolves when OPEN may be tried again. A daemon lets root in on AUTH_LIST alone: it then offers `none`. */
async function authenticate(
  client: RpcClient,
  refusal: LibvirtError,
  options: () => CallOptions,
): Promise<readonly number[]> {
  const { types } = await client.call('authList', undefined, options());
  if (types.includes(AUTH_TYPE.polkit)) {
    await client.call('authPolkit', undefined, options()).catch((error: unknown) => {
      throw error instanceof LibvirtError ? authError(error, types) : error;
    });
  } else if (types.includes(AUTH_TYPE.sasl)) {
    throw new LibvirtAuthError(`libvirtd accepts only SASL on this socket. ${ADVICE}`, types, {
      cause: refusal,
    });
  }
  return types;
}

const isCode = (error: unknown, code: number): error is LibvirtError =>
  error instanceof LibvirtError && error.code === code;

const asAuthError = (error: unknown, types: readonly number[]): unknown =>
  error instanceof LibvirtError && REFUSALS.has(error.code) ? authError(error, types) : error;

const authError = (cause: LibvirtError, types: readonly number[]): LibvirtAuthError =>
  new LibvirtAuthError(`libvirtd did not let this account in (${cause.message}). ${ADVICE}`, types, {
    cause,
  });
