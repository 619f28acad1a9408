/** What a procedure is, to the daemon: decoded arguments and the caller in, a result or a DaemonError out. */
import type {
  CallProcedureName,
  DownloadProcedureName,
  ProcedureArgs,
  ProcedureResult,
  UploadProcedureName,
} from '../../../../lib/libvirt/protocol.ts';
import type { HostState } from '../state/host-state.ts';

/**
 * How clients are let in: by the socket's permissions, or by polkit or SASL before they may open. `polkit-root` is what
 * root meets where polkit is asked for: it is let in without, but only once it has asked for the list.
 */
export type AuthMode = 'none' | 'polkit' | 'polkit-denied' | 'polkit-root' | 'sasl';

/** What one connection has come to. */
export interface Session {
  isAuthenticated: boolean;
  isOpen: boolean;
}

export interface Caller {
  readonly host: HostState;
  readonly auth: AuthMode;
  readonly session: Session;
  readonly sleep: (ms: number) => Promise<void>;
  /** How long making a volume takes; until then others find its name taken and its bytes missing. */
  readonly volumeBuildMs: number;
}

export type Handler<N extends CallProcedureName> = (
  args: ProcedureArgs<N>,
  caller: Caller,
) => ProcedureResult<N> | Promise<ProcedureResult<N>>;

export type Handlers<N extends CallProcedureName = CallProcedureName> = { readonly [K in N]: Handler<K> };

/** Where the data packets of an upload go, one by one. What it throws ends the stream with that error. */
export type UploadSink = (bytes: Uint8Array) => void;

export type UploadHandlers = {
  readonly [K in UploadProcedureName]: (args: ProcedureArgs<K>, caller: Caller) => UploadSink;
};
export type DownloadHandlers = {
  readonly [K in DownloadProcedureName]: (args: ProcedureArgs<K>, caller: Caller) => Iterable<Uint8Array>;
};
