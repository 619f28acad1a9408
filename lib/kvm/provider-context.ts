/** What every operation of one invocation works with. */

import { ProviderError } from '../provider/provider-error.ts';
import { MAX_DELAY_SECONDS, type WorkMessage, type WorkOp } from '../provider/work.ts';
import type { HostSessions } from './host-sessions.ts';
import type { Identity } from './metadata.ts';
import type { KvmHost, KvmProviderOptions, ReportEvent } from './provider-options.ts';

export interface ProviderContext {
  readonly options: KvmProviderOptions;
  readonly sessions: HostSessions;
  readonly report: ReportEvent;
}

/** @throws ProviderError `not-found`: a host in a path or an id that is not configured. */
export function hostNamed(context: ProviderContext, name: string): KvmHost {
  const host = context.options.hosts.find((known) => known.name === name);
  if (host === undefined)
    throw new ProviderError('not-found', `no host ${JSON.stringify(name.slice(0, 80))}`);
  return host;
}

/** Sends a VM's own continuation. A wait longer than the queue can hold is cut: whoever receives it sends it on. */
export async function sendWork(
  context: ProviderContext,
  op: WorkOp,
  host: string,
  { name, uid, uuid }: Pick<Identity, 'name' | 'uid' | 'uuid'>,
  delaySeconds: number,
  attempt = 0,
): Promise<void> {
  const notBefore = context.options.now() + delaySeconds * 1000;
  const message: WorkMessage = { v: 1, op, host, name, uid, uuid, attempt, notBefore };
  await context.options.enqueue(message, Math.min(MAX_DELAY_SECONDS, Math.max(0, Math.ceil(delaySeconds))));
}
