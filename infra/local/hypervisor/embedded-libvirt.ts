/**
 * A libvirtd in this process: real frames over any byte stream, the host's state behind them. This is the entry without
 * SSH, for suites that run thousands of schedules; embedded-host.ts puts an SSH server in front of it.
 */
import { type Duplex, duplexPair } from 'node:stream';
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { AuthMode } from './daemon/handler.ts';
import { ServerConnection } from './daemon/server-connection.ts';
import { FaultPlan } from './fault-plan.ts';
import { HostState, type HostStateOptions } from './state/host-state.ts';

export interface EmbeddedLibvirtOptions extends HostStateOptions {
  readonly faults?: FaultPlan;
  readonly auth?: AuthMode;
  /** How delays, guest agents and volume creation wait; by default real time, of which 0 ms is one turn of the loop. */
  readonly sleep?: (ms: number) => Promise<void>;
  /** From a volume create until the volume is usable. */
  readonly volumeBuildMs?: number;
}

export interface EmbeddedLibvirt {
  readonly state: HostState;
  readonly faults: FaultPlan;
  /** Connections that are open now. */
  readonly sessions: number;
  /** False: nobody listens on the socket. Open connections stay. */
  isListening: boolean;
  /** A client's end of a new connection; already destroyed when nobody listens. */
  connect(): Duplex;
  /** Serves a client on a stream that somebody else made. */
  serve(stream: Duplex): void;
  /** Every connection is lost, as when libvirtd restarts; domains, pools and guests go on. */
  restart(): void;
  /** Nobody listens any more, and every connection is lost. May be called again. */
  close(): Promise<void>;
}

export function createEmbeddedLibvirt(options: EmbeddedLibvirtOptions): EmbeddedLibvirt {
  const state = new HostState(options);
  const faults = options.faults ?? new FaultPlan();
  const auth = options.auth ?? 'none';
  const sleep = options.sleep ?? defaultSleep;
  const connections = new Map<ServerConnection, Promise<void>>();
  let accepted = 0;

  const serve = (stream: Duplex): void => {
    accepted += 1;
    const session = { isAuthenticated: auth === 'none', isOpen: false };
    const caller = { host: state, auth, session, sleep, volumeBuildMs: options.volumeBuildMs ?? 0 };
    const connection = new ServerConnection({ stream, caller, faults, number: accepted });
    connections.set(
      connection,
      connection.serve().finally(() => connections.delete(connection)),
    );
  };

  return {
    state,
    faults,
    isListening: true,
    get sessions() {
      return connections.size;
    },
    connect() {
      const [client, server] = linkedPair();
      if (this.isListening) {
        serve(server);
      } else {
        // Without an error: nobody may be listening for one yet.
        client.destroy();
      }
      return client;
    },
    serve,
    restart() {
      for (const connection of connections.keys()) {
        connection.cut();
      }
    },
    async close() {
      this.isListening = false;
      this.restart();
      await Promise.all(connections.values());
    },
  };
}

const defaultSleep = (ms: number): Promise<void> =>
  ms > 0 ? setTimeout(ms, undefined, { ref: false }) : setImmediate();

/** Like a socket pair: when one end is destroyed, the other hears of it. */
function linkedPair(): [Duplex, Duplex] {
  const [client, server] = duplexPair();
  client.on('close', () => server.destroy());
  server.on('close', () => client.destroy());
  return [client, server];
}
