/** Starts everybody who takes part as a warm peer, and says what the processes that are started anew each time need. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleFunction } from '../../../infra/bundle.ts';
import { METADATA } from '../../../lib/kvm/metadata.ts';
import { run } from '../../lab/commands.ts';
import { POOL } from '../../lab/topology.ts';
import { type BenchHost, SOCKET_PATH } from '../bench-host.ts';
import { BENCH_FLEET, KVM_HOST } from '../bench-vms.ts';
import type { Endpoint } from '../ssh-access.ts';
import type { PeerSettings } from './orders.ts';
import { startWarmPeer, type WarmPeer } from './warm-peer.ts';

/** What is built for the peers, kept between runs: a first build of Go's libraries takes half a minute. */
const CACHE = join(import.meta.dirname, '..', '.cache');
/** The one that Debian's python3-libvirt is for; another one may come first on the PATH. */
const DEBIAN_PYTHON = '/usr/bin/python3';
const BUILD_TIMEOUT_MS = 300_000;

/** In figures and tables. */
export const OURS = 'kvm-functions';
export const GO = 'go-libvirt';
export const GO_TOGETHER = 'go-libvirt, calls together';
export const PYTHON = 'libvirt-python';
export const VIRSH = 'virsh';

export interface PeerPrograms {
  /** This project's client as one file, built as the functions are. */
  readonly own: string;
  readonly go: string;
}

/** Builds the two peers that are no scripts. @throws CommandError with the compiler's output */
export async function buildPeers(): Promise<PeerPrograms> {
  await mkdir(CACHE, { recursive: true });
  const own = await bundleFunction('own-client', join(CACHE, 'own-client'), {
    functions: import.meta.dirname,
  });
  const go = join(CACHE, 'go-libvirt');
  const sources = ['main.go', 'tunnel.go'].map((file) => join(import.meta.dirname, 'go-libvirt', file));
  await run('go', ['build', '-o', go, ...sources], {
    // Debian's libraries lie in a GOPATH and are no modules; nothing is to be fetched.
    env: {
      GO111MODULE: 'off',
      GOPATH: '/usr/share/gocode',
      GOCACHE: join(CACHE, 'go-build'),
      CGO_ENABLED: '0',
    },
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  return { own: own.file, go };
}

/** Every endpoint must be known to the host before: peers read known_hosts once. */
export function peerSettings({ access }: BenchHost): PeerSettings {
  return {
    user: access.user,
    privateKeyFile: access.privateKeyFile,
    knownHostsFile: access.knownHostsFile,
    sshCommand: access.command,
    socketPath: SOCKET_PATH,
    metadataUri: METADATA.identity.uri,
    fleet: BENCH_FLEET,
    host: KVM_HOST.name,
    pool: POOL.name,
    bridge: KVM_HOST.bridge,
  };
}

export function startOwnClient({ own }: PeerPrograms, settings: PeerSettings): Promise<WarmPeer> {
  return startWarmPeer(process.execPath, [own], settings);
}

export function startGoPeer({ go }: PeerPrograms, settings: PeerSettings): Promise<WarmPeer> {
  return startWarmPeer(go, [], settings);
}

export function startPythonPeer(settings: PeerSettings): Promise<WarmPeer> {
  return startWarmPeer(DEBIAN_PYTHON, [join(import.meta.dirname, 'libvirt-python.py')], settings);
}

/** What libvirt's own clients connect to; they start the SSH command that it names. */
export function libvirtUri({ access }: BenchHost, { address, port }: Endpoint): string {
  return `qemu+ssh://${access.user}@${address}:${port}/system?command=${access.command}`;
}
