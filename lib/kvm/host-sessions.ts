/**
 * At most one session per host and invocation, shared by all of the invocation's work and ended with it. None is ever
 * kept for the next invocation: a frozen sandbox wakes up with dead sockets (LM-01).
 */
import { ProviderError } from '../provider/provider-error.ts';
import { HostSession } from './host-session.ts';
import type { KvmHost, KvmProviderOptions } from './provider-options.ts';

export class HostSessions {
  readonly #options: KvmProviderOptions;
  readonly #sessions = new Map<string, Promise<HostSession>>();
  #closed = false;

  constructor(options: KvmProviderOptions) {
    this.#options = options;
  }

  /** The host's session, opened if there is none or the last one broke. Concurrent callers share one. */
  async get(host: KvmHost): Promise<HostSession> {
    const known = this.#sessions.get(host.name);
    const session = known === undefined ? undefined : await known.catch(() => undefined);
    // Asked after the wait: a session opened now would be ended by nobody.
    if (this.#closed) throw new ProviderError('internal', 'the provider was closed');
    if (session !== undefined && !session.closed) return session;
    // Whoever woke up first has replaced the broken one already: opening again would leak a session.
    const current = this.#sessions.get(host.name);
    if (current !== undefined && current !== known) return current;
    const opening = HostSession.open(host, this.#options);
    this.#sessions.set(host.name, opening);
    // The broken one's carrier still holds a TCP connection. Both at once, so that no failure goes unheard meanwhile.
    const [opened] = await Promise.all([opening, session?.close()]);
    return opened;
  }

  /** Ends every session. Safe to call twice; never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.all(sessions.map((session) => session.then((open) => open.close()).catch(() => undefined)));
  }
}
