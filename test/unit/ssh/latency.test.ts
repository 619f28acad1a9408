import { describe, expect, it, onTestFinished } from 'vitest';
import { generateSshKey, publicKeyLine } from '../../../infra/local/hypervisor/ssh-key.ts';
import { startSshServer } from '../../../infra/local/hypervisor/ssh-server.ts';
import { parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { openTunnel } from '../../../lib/ssh/tunnel.ts';

describe('a small question through a tunnel', () => {
  /**
   * ssh2 writes a packet in pieces. With Nagle's algorithm each piece waits for the acknowledgement of the one before,
   * which a server that has nothing to say yet sends after 40 ms: 44 ms for each question on loopback. The median, so
   * that a busy machine does not decide.
   */
  it('is not held back until the packet before it is acknowledged', async () => {
    const hostKey = generateSshKey();
    const clientKey = generateSshKey();
    const server = await startSshServer({
      hostKeys: [hostKey.privateKey],
      authorizedKeys: [clientKey.publicKey],
      user: 'kvmfn',
      socketPath: '/run/test.sock',
      access: 'forward',
      port: 0,
      isListening: () => true,
      serve: (channel) => channel.pipe(channel),
    });
    onTestFinished(() => server.close());
    const tunnel = await openTunnel(
      {
        address: '127.0.0.1',
        port: server.port,
        user: 'kvmfn',
        privateKey: clientKey.privateKey,
        knownHosts: parseKnownHosts(`[127.0.0.1]:${server.port} ${publicKeyLine(hostKey.privateKey)}`),
        socketPath: '/run/test.sock',
        transport: 'socket',
      },
      { timeoutMs: 20_000 },
    );
    onTestFinished(() => tunnel.close());

    const tookMs: number[] = [];
    for (let round = 0; round < 51; round += 1) {
      const startedAt = performance.now();
      const answer = new Promise((resolve) => tunnel.stream.once('data', resolve));
      tunnel.stream.write('?');
      await answer;
      tookMs.push(performance.now() - startedAt);
    }

    expect(tookMs.sort((a, b) => a - b)[25]).toBeLessThan(25);
  });
});
