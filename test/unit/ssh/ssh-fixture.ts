/** Everything a test of lib/ssh starts, and its end: keys, servers, tunnels. */
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { openTunnel, type SshTarget, type Tunnel, type TunnelOptions } from '../../../lib/ssh/tunnel.ts';
import { createKeyDir, type KeyPair } from './keys.ts';

export interface SshFixture {
  readonly hostKey: KeyPair;
  readonly clientKey: KeyPair;
  generateKey(name: string, ...options: string[]): KeyPair;
  /** A target on loopback that trusts the host key and logs in with the client key. */
  target(port: number, overrides?: Partial<SshTarget>): SshTarget;
  /** Opens and closes again at the end of the test. Pauses between attempts are shortened to nothing. */
  open(target: SshTarget, options?: Partial<TunnelOptions>): Promise<Tunnel>;
  /** Closes at the end of the test. */
  use<T extends { close(): Promise<void> }>(resource: T): T;
  /** After each test. */
  closeAll(): Promise<void>;
  remove(): void;
}

export function createSshFixture(): SshFixture {
  const dir = createKeyDir();
  const hostKey = dir.generate('host', '-t', 'ed25519');
  const clientKey = dir.generate('client', '-t', 'ed25519');
  const resources: { close(): Promise<void> }[] = [];
  const use = <T extends { close(): Promise<void> }>(resource: T): T => {
    resources.push(resource);
    return resource;
  };
  return {
    hostKey,
    clientKey,
    generateKey: dir.generate,
    target: (port, overrides = {}) => ({
      address: '127.0.0.1',
      port,
      user: 'kvmfn',
      privateKey: clientKey.private,
      knownHosts: parseKnownHosts(`[127.0.0.1]:${port} ${hostKey.public}`),
      socketPath: '/run/test/daemon.sock',
      transport: 'socket',
      ...overrides,
    }),
    open: async (target, options = {}) =>
      use(await openTunnel(target, { timeoutMs: 20_000, sleep: () => Promise.resolve(), ...options })),
    use,
    closeAll: async () => {
      for (const resource of resources.splice(0).reverse()) await resource.close();
    },
    remove: dir.remove,
  };
}
