import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedHost, startEmbeddedHost } from '../../../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../../../infra/local/hypervisor/ssh-key.ts';
import { LibvirtConnection, LibvirtTransportError } from '../../../../lib/libvirt/index.ts';
import { parseKnownHosts } from '../../../../lib/ssh/known-hosts.ts';
import { SshError } from '../../../../lib/ssh/ssh-error.ts';
import { openTunnel, type SshTarget, type Tunnel } from '../../../../lib/ssh/tunnel.ts';
import { DaemonClient, rawVolumeXml } from './daemon-client.ts';

const key = generateSshKey();
const stranger = generateSshKey();

describe('an embedded host behind SSH', () => {
  let host: EmbeddedHost;
  let tunnels: Tunnel[];

  const start = async (options: Partial<Parameters<typeof startEmbeddedHost>[0]> = {}): Promise<void> => {
    host = await startEmbeddedHost({ name: 'kvm-a', authorizedKeys: [key.publicKey], ...options });
  };
  const tunnel = async (overrides: Partial<SshTarget> = {}): Promise<Tunnel> => {
    const opened = await openTunnel(
      {
        address: host.address,
        port: host.port,
        user: host.user,
        privateKey: key.privateKey,
        knownHosts: parseKnownHosts(host.knownHosts),
        socketPath: host.socketPath,
        transport: 'socket',
        ...overrides,
      },
      { timeoutMs: 5_000, sleep: async () => undefined },
    );
    tunnels.push(opened);
    return opened;
  };
  const reason = async (opening: Promise<Tunnel>): Promise<string> => {
    const error = await opening.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    return error instanceof SshError ? error.reason : String(error);
  };

  beforeEach(async () => {
    tunnels = [];
    await start();
  });

  afterEach(async () => {
    await Promise.all(tunnels.map((opened) => opened.close()));
    await host.close();
  });

  it.each(['socket', 'helper'] as const)('is a libvirt connection by way of the %s', async (transport) => {
    const { stream, transport: used } = await tunnel({ transport });
    const client = await DaemonClient.open(LibvirtConnection.open(stream));
    const bytes = Buffer.alloc(1_000_001, 'kvm');

    const vol = await client.createVolume(rawVolumeXml('a', 0));
    await client.upload(vol, [bytes]);

    expect(used).toBe(transport);
    expect((await client.download(vol)).equals(bytes)).toBe(true);
    expect(await client.connection.call('connectGetHostname', undefined)).toEqual({ hostname: 'kvm-a' });
  });

  it('lets in nobody without the key, by another name or with another host key', async () => {
    const other = parseKnownHosts(`[127.0.0.1]:${host.port} ${stranger.publicKey}`);

    expect(await reason(tunnel({ privateKey: stranger.privateKey }))).toBe('auth-refused');
    expect(await reason(tunnel({ user: 'root' }))).toBe('auth-refused');
    expect(await reason(tunnel({ knownHosts: other }))).toBe('host-key-changed');
    expect(host.libvirt.sessions).toBe(0);
  });

  it('forwards to its own socket only, and to none while nobody listens', async () => {
    expect(await reason(tunnel({ socketPath: '/var/run/libvirt/libvirt-sock' }))).toBe('socket-unreachable');

    host.libvirt.isListening = false;

    expect(await reason(tunnel())).toBe('socket-unreachable');
  });

  it('can be an account for one of the two ways only', async () => {
    await host.close();
    await start({ access: 'forward' });
    expect(await reason(tunnel({ transport: 'helper' }))).not.toBe('undefined');
    expect((await tunnel({ transport: 'auto' })).transport).toBe('socket');

    await host.close();
    await start({ access: 'helper' });
    expect(await reason(tunnel({ transport: 'socket' }))).toBe('socket-unreachable');
    expect((await tunnel({ transport: 'auto' })).transport).toBe('helper');
  });

  it('cuts a session at a call, and the SSH connection outlives it', async () => {
    const { stream } = await tunnel();
    const connection = await LibvirtConnection.open(stream);
    host.faults.reset();
    host.faults.atCall(1, { kind: 'cut-after' });

    await expect(connection.call('connectGetHostname', undefined)).rejects.toThrow(LibvirtTransportError);

    expect(host.sshConnections).toBe(1);
    await expect.poll(() => host.libvirt.sessions).toBe(0);
  });

  it('LV-16: has no session left when the tunnel is closed or the network went away', async () => {
    const first = await tunnel();
    const second = await tunnel();
    await LibvirtConnection.open(first.stream);
    const lost = await LibvirtConnection.open(second.stream);
    expect([host.sshConnections, host.libvirt.sessions]).toEqual([2, 2]);

    await first.close();
    await expect.poll(() => [host.sshConnections, host.libvirt.sessions]).toEqual([1, 1]);
    host.dropConnections();

    await expect(lost.call('connectGetHostname', undefined)).rejects.toThrow(LibvirtTransportError);
    await expect.poll(() => [host.sshConnections, host.libvirt.sessions]).toEqual([0, 0]);
  });

  it('keeps its state over dropped connections and restarts of the daemon', async () => {
    const { stream } = await tunnel();
    const client = await DaemonClient.open(LibvirtConnection.open(stream));
    await client.createVolume(rawVolumeXml('a', 5));

    host.libvirt.restart();
    host.dropConnections();

    const again = await DaemonClient.open(LibvirtConnection.open((await tunnel()).stream));
    expect(await again.capacity(await again.volume('a'))).toBe(5n);
  });

  it('keeps its host key when it is given one', async () => {
    await host.close();
    await start({ hostKey: stranger.privateKey });

    expect(host.knownHosts).toBe(`[127.0.0.1]:${host.port} ${stranger.publicKey}`);
  });
});
