/**
 * A whole hypervisor host in this process, reached the way a real one is: an SSH server on loopback, a libvirtd behind
 * its socket path, pools, volumes and domains behind that. For `npm start` without a configuration and for tests.
 */
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
  type EmbeddedLibvirtOptions,
} from './embedded-libvirt.ts';
import type { FaultPlan } from './fault-plan.ts';
import { generateSshKey, publicKeyLine } from './ssh-key.ts';
import { type SshServerOptions, startSshServer } from './ssh-server.ts';
import type { HostState } from './state/host-state.ts';

export const DEFAULT_SOCKET_PATH = '/run/libvirt/libvirt-sock';

export interface EmbeddedHostOptions extends EmbeddedLibvirtOptions {
  /** Who may come in: lines as in authorized_keys (type and base64). */
  readonly authorizedKeys: readonly string[];
  /** Default `kvmfn`. */
  readonly user?: string;
  /** A private host key; by default a fresh one. */
  readonly hostKey?: string;
  readonly socketPath?: string;
  /** Default `both`. */
  readonly access?: SshServerOptions['access'];
  /** By default a free one. */
  readonly port?: number;
}

export interface EmbeddedHost extends AsyncDisposable {
  readonly name: string;
  readonly address: '127.0.0.1';
  readonly port: number;
  readonly user: string;
  readonly socketPath: string;
  /** The host's line for known_hosts. */
  readonly knownHosts: string;
  readonly libvirt: EmbeddedLibvirt;
  readonly state: HostState;
  readonly faults: FaultPlan;
  /** SSH connections that are open now; `libvirt.sessions` counts those to the daemon. */
  readonly sshConnections: number;
  /** Every SSH connection is lost, as when the network goes away. */
  dropConnections(): void;
  /** May be called again. */
  close(): Promise<void>;
}

export async function startEmbeddedHost(options: EmbeddedHostOptions): Promise<EmbeddedHost> {
  const libvirt = createEmbeddedLibvirt(options);
  const hostKey = options.hostKey ?? generateSshKey().privateKey;
  const user = options.user ?? 'kvmfn';
  const socketPath = options.socketPath ?? DEFAULT_SOCKET_PATH;
  const ssh = await startSshServer({
    hostKeys: [hostKey],
    authorizedKeys: options.authorizedKeys,
    user,
    socketPath,
    access: options.access ?? 'both',
    port: options.port ?? 0,
    isListening: () => libvirt.isListening,
    serve: (channel) => libvirt.serve(channel),
  });

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= ssh.close().then(() => libvirt.close());
    return closing;
  };
  return {
    name: options.name,
    address: '127.0.0.1',
    port: ssh.port,
    user,
    socketPath,
    knownHosts: `[127.0.0.1]:${ssh.port} ${publicKeyLine(hostKey)}`,
    libvirt,
    state: libvirt.state,
    faults: libvirt.faults,
    get sshConnections() {
      return ssh.connections;
    },
    dropConnections: () => ssh.dropConnections(),
    close,
    [Symbol.asyncDispose]: close,
  };
}
