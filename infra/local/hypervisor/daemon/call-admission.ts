/**
 * Whether a call may be carried out at all, in the order in which libvirt asks: is it known, is the client let in, can
 * its arguments be read, is the connection open. A refused call leaves the connection as it was.
 */
import { XdrError } from '@stellar/js-xdr';
import type { MessageHeader } from '../../../../lib/libvirt/framing.ts';
import { decodeArgs, isProcedureFrame, MESSAGE_STATUS } from '../../../../lib/libvirt/message.ts';
import type { ProcedureArgs, ProcedureName } from '../../../../lib/libvirt/protocol.ts';
import { ERROR_DOMAIN, internalError, rpcError } from './daemon-error.ts';
import type { Session } from './handler.ts';

const BEFORE_AUTHENTICATION: readonly ProcedureName[] = ['authList', 'authPolkit', 'connectClose'];
const BEFORE_OPEN: readonly ProcedureName[] = [...BEFORE_AUTHENTICATION, 'connectOpen'];

/** Arguments that could be read. */
export interface DecodedCall<N extends ProcedureName> {
  readonly args: ProcedureArgs<N>;
}

/** undefined when the payload is not what the procedure takes. */
export function decodeCall<N extends ProcedureName>(
  name: N,
  payload: Uint8Array,
): DecodedCall<N> | undefined {
  try {
    return { args: decodeArgs(name, payload) };
  } catch (error) {
    if (error instanceof XdrError) {
      return undefined;
    }
    throw error;
  }
}

/** The arguments of a call that may be carried out. @throws DaemonError for one that may not. */
export function admit<N extends ProcedureName>(
  name: N,
  { status }: MessageHeader,
  decoded: DecodedCall<N> | undefined,
  session: Session,
): ProcedureArgs<N> {
  if (status !== MESSAGE_STATUS.ok) {
    throw rpcError(`Unexpected message status ${status}`);
  }
  if (!session.isAuthenticated && !BEFORE_AUTHENTICATION.includes(name)) {
    throw rpcError('authentication required');
  }
  if (!decoded) {
    throw rpcError('Unable to decode message payload');
  }
  if (!session.isOpen && !BEFORE_OPEN.includes(name)) {
    throw internalError(ERROR_DOMAIN.rpc, 'hypervisor connection not open');
  }
  return decoded.args;
}

/** @throws DaemonError always: for a procedure, version or program that is not served. */
export function refuseUnknown(header: MessageHeader): never {
  const { program, version, procedure } = header;
  throw isProcedureFrame({ header })
    ? rpcError(`unknown procedure: ${procedure}`)
    : rpcError(`Cannot find program ${program} version ${version}`);
}
