/**
 * What one invocation holds on a host, by the whole way there: SSH, the socket behind it, libvirt's sessions. A daemon
 * serves a limited number of clients, and sshd turns handshakes away that come too close together.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedHost, startEmbeddedHost } from '../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../infra/local/hypervisor/ssh-key.ts';
import { Invocation } from '../../lib/lambda/invocation.ts';
import { withProvider } from '../../lib/lambda/provider-session.ts';
import type { FleetProvider, Runtime } from '../../lib/lambda/runtime.ts';
import { parseKnownHosts } from '../../lib/ssh/known-hosts.ts';
import { openTunnel } from '../../lib/ssh/tunnel.ts';
import { FleetHarness, ImageServer, tinyRawImage } from '../contract/fleet-harness.ts';
import { createTestRuntime, lambdaContext } from '../unit/lambda/test-runtime.ts';

const HOST = { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' } as const;
const key = generateSshKey();

let host: EmbeddedHost;
let image: ImageServer;
let fleet: FleetHarness;
/** The most SSH connections that were open together since the last look. */
let mostConnections: number;

beforeEach(async () => {
  host = await startEmbeddedHost({ name: HOST.name, bootMs: 0, authorizedKeys: [key.publicKey] });
  image = await ImageServer.start(tinyRawImage());
  fleet = new FleetHarness({
    fleet: 'demo',
    hosts: [HOST],
    imageUrl: image.url,
    imageChecksum: image.checksum,
    dial: async (_name, options) => {
      const { address, port, user, socketPath, knownHosts } = host;
      const tunnel = await openTunnel(
        {
          address,
          port,
          user,
          socketPath,
          privateKey: key.privateKey,
          knownHosts: parseKnownHosts(knownHosts),
          transport: 'socket',
        },
        options,
      );
      mostConnections = Math.max(mostConnections, host.sshConnections);
      return tunnel;
    },
  });
  await fleet.warmUp(HOST.name);
  mostConnections = 0;
  await nothingLeft();
  host.faults.reset();
});
afterEach(async () => {
  await host.close();
  await image.close();
});

/** The server hears of a close a moment after the client has made it. */
const nothingLeft = (): Promise<void> =>
  expect.poll(() => [host.sshConnections, host.libvirt.sessions], { timeout: 5_000 }).toEqual([0, 0]);

/** As a function runs on AWS, on the real provider. */
function invoke<T>(work: (provider: FleetProvider) => Promise<T>): Promise<T> {
  const runtime: Runtime = createTestRuntime({
    now: fleet.now,
    openProvider: async ({ deadlineAt, signal, canImport }) => {
      const provider = fleet.provider({ deadlineAt, signal, canImport });
      return { ...provider, examineHost: () => Promise.reject(new Error('not asked here')) };
    },
  });
  const invocation = new Invocation({}, lambdaContext(), runtime, { operation: 'test' });
  return withProvider(runtime, invocation, false, work);
}

describe('LV-16: an invocation', () => {
  const THROWS: readonly (readonly [string, (provider: FleetProvider) => Promise<never>])[] = [
    [
      'after a call',
      async (provider) => {
        await provider.listByTag();
        throw new Error('the body failed');
      },
    ],
    [
      'beside calls that are under way',
      async (provider) => {
        await provider.listByTag();
        for (let call = 0; call < 5; call += 1) provider.get('kvm-a/none').catch(() => undefined);
        throw new Error('the body failed');
      },
    ],
    [
      'while a session is being opened',
      async (provider) => {
        provider.listByTag().catch(() => undefined);
        throw new Error('the body failed');
      },
    ],
  ];

  it.each(THROWS)('whose body throws %s leaves no session on the host, 25 times over', async (_, body) => {
    for (let times = 0; times < 25; times += 1) {
      await expect(invoke(body)).rejects.toThrow('the body failed');
    }

    await nothingLeft();
  });

  it('tells the daemon goodbye each time', async () => {
    const [, body] = THROWS[0] ?? expect.fail('no body');
    for (let times = 0; times < 25; times += 1) await invoke(body).catch(() => undefined);

    await nothingLeft();

    const count = (name: string): number => host.faults.procedures.filter((each) => each === name).length;
    expect([count('connectOpen'), count('connectClose')]).toEqual([25, 25]);
  });

  it('that loses its connection in every call leaves none behind either', async () => {
    host.faults.at('connectListAllDomains', { kind: 'cut-before' }, 'every');

    for (let times = 0; times < 25; times += 1) {
      const { hosts } = await invoke((provider) => provider.listByTag());
      expect(hosts).toMatchObject([{ complete: false }]);
    }

    await nothingLeft();
  });

  it('that is refused by the daemon gives the SSH connection back', async () => {
    host.faults.at('connectOpen', { kind: 'error', code: 38 }, 'every');

    for (let times = 0; times < 25; times += 1) {
      const { hosts } = await invoke((provider) => provider.listByTag());
      expect(hosts).toMatchObject([{ complete: false }]);
    }

    await nothingLeft();
  });
});

describe('SS-07: one invocation', () => {
  it('holds one connection to a host however many VMs it touches at once', async () => {
    await using provider = fleet.provider();

    await Promise.all([
      ...Array.from({ length: 40 }, (_, n) => provider.create(fleet.request(`vm-${n}`, HOST.name))),
      provider.listByTag(),
      provider.fleetView(),
    ]);
    await Promise.all(Array.from({ length: 40 }, (_, n) => provider.get(`${HOST.name}/vm-${n}`)));

    expect(mostConnections).toBe(1);
    expect(host.faults.procedures.filter((name) => name === 'connectOpen')).toHaveLength(1);
  });

  it('opens another only after the one it had was lost', async () => {
    await using provider = fleet.provider();
    await provider.listByTag();
    host.dropConnections();
    await expect.poll(() => host.sshConnections).toBe(0);

    await Promise.all(
      Array.from({ length: 20 }, () => provider.get(`${HOST.name}/none`).catch(() => undefined)),
    );
    await Promise.all(
      Array.from({ length: 20 }, () => provider.get(`${HOST.name}/none`).catch(() => undefined)),
    );

    expect(mostConnections).toBe(1);
    expect(host.faults.procedures.filter((name) => name === 'connectOpen')).toHaveLength(2);
  });
});
