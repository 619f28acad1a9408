/**
 * The state of every domain of a host, in one call (virConnectGetAllDomainStats, libvirt 1.2.8). A call per domain
 * doubles what a list of a thousand asks. NOWAIT: the state needs no word from QEMU, so no stuck guest holds it up.
 */
import { CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT, DOMAIN_STATS_STATE } from '../libvirt/constants.ts';
import { LibvirtError, LibvirtTimeoutError } from '../libvirt/errors.ts';
import { type DomainHandle, TYPED_PARAM, type TypedParam } from '../libvirt/objects.ts';
import { formatUuid } from '../libvirt/uuid.ts';
import type { HostSession } from './host-session.ts';

/** Both of one moment: a handle listed a moment earlier may carry the runtime id from before a start. */
export interface DomainState {
  readonly handle: DomainHandle;
  /** DOMAIN_STATE. */
  readonly state: number;
}

/** A host that has not answered by then is asked for each domain by itself. */
const LIMIT_MS = 5_000;
const STATE_FIELD = 'state.state';

/**
 * By UUID. What is missing is to be asked for by itself: a domain defined since, or all of them on a daemon that does
 * not know the flag (before 4.5) or has more domains than fit into one reply (4,096).
 */
export async function readDomainStates(session: HostSession): Promise<ReadonlyMap<string, DomainState>> {
  const args = { doms: [], stats: DOMAIN_STATS_STATE, flags: CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT };
  try {
    const { retStats } = await session.call('connectGetAllDomainStats', args, { timeoutMs: LIMIT_MS });
    return new Map(
      retStats.flatMap(({ dom, params }): [string, DomainState][] => {
        const state = stateIn(params);
        return state === null ? [] : [[formatUuid(dom.uuid), { handle: dom, state }]];
      }),
    );
  } catch (error) {
    if (error instanceof LibvirtError || error instanceof LibvirtTimeoutError) return new Map();
    throw error;
  }
}

function stateIn(params: readonly TypedParam[]): number | null {
  const found = params.find(({ field }) => field === STATE_FIELD)?.value;
  return found?.type === TYPED_PARAM.int ? found.value : null;
}
