/** Calls on the examined session, each with what is left of the examination's time. */
import type { LibvirtConnection } from '../../libvirt/connection.ts';
import type { CallProcedureName, ProcedureArgs, ProcedureResult } from '../../libvirt/protocol.ts';

export interface DaemonCalls {
  /** @throws LibvirtError, LibvirtTimeoutError, LibvirtTransportError */
  call<N extends CallProcedureName>(procedure: N, args: ProcedureArgs<N>): Promise<ProcedureResult<N>>;
  /** For what must be undone even when the time is used up. */
  finallyCall<N extends CallProcedureName>(procedure: N, args: ProcedureArgs<N>): Promise<ProcedureResult<N>>;
}

const FINALLY_MS = 1_000;

export function daemonCalls(
  connection: LibvirtConnection,
  limits: () => { readonly timeoutMs: number; readonly signal?: AbortSignal },
): DaemonCalls {
  return {
    call: (procedure, args) => connection.call(procedure, args, limits()),
    finallyCall: (procedure, args) => connection.call(procedure, args, { timeoutMs: FINALLY_MS }),
  };
}
