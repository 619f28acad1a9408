/**
 * What the lab consists of: two hosts behind one bridge, and every name and address in it, so that `down`
 * removes exactly what `up` makes. All addresses are of the range for benchmarks between devices (198.18.0.0/15,
 * RFC 2544), which no network should route. Not of those for documentation: machines exist, rented ones above
 * all, that have such an address themselves.
 */
import { join } from 'node:path';

export interface LabHost {
  readonly name: 'kvm-a' | 'kvm-b';
  readonly address: string;
  /** How an account that may do nothing else reaches libvirt on this host: both ways that exist in the field. */
  readonly transport: 'socket' | 'helper';
  /** Who decides that the account may manage libvirt: the socket's group, or Debian's stock polkit rule. */
  readonly authentication: 'socket-permissions' | 'polkit';
  /** The one key of this host that is in known_hosts; its sshd has others, as real ones do. */
  readonly knownKeyType: 'ed25519' | 'ecdsa';
  /** The bridge's end of the cable, in the root namespace (15 characters at most). */
  readonly link: string;
  readonly guests: GuestNetwork;
}

export interface GuestNetwork {
  readonly subnet: string;
  /** The host's own address on its guest bridge. */
  readonly gateway: string;
  readonly firstAddress: string;
  readonly lastAddress: string;
}

export type LabHostName = LabHost['name'];

export const HOSTS: Readonly<Record<LabHostName, LabHost>> = {
  'kvm-a': {
    name: 'kvm-a',
    address: '198.19.0.11',
    transport: 'socket',
    authentication: 'socket-permissions',
    knownKeyType: 'ed25519',
    link: 'kvmfn-lab-a',
    guests: {
      subnet: '198.19.0.64/26',
      gateway: '198.19.0.65',
      firstAddress: '198.19.0.70',
      lastAddress: '198.19.0.120',
    },
  },
  'kvm-b': {
    name: 'kvm-b',
    address: '198.19.0.12',
    transport: 'helper',
    authentication: 'polkit',
    knownKeyType: 'ecdsa',
    link: 'kvmfn-lab-b',
    guests: {
      subnet: '198.19.0.128/26',
      gateway: '198.19.0.129',
      firstAddress: '198.19.0.134',
      lastAddress: '198.19.0.184',
    },
  },
};

/** The network the hosts stand in: a bridge in the root namespace, where the test runner reaches them. */
export const HOST_NETWORK = { bridge: 'kvmfn-lab', address: '198.19.0.1' } as const;
/** Of the host network and of the guest networks. */
export const PREFIX_LENGTH = 26;
/** What contains them all. */
export const LAB_NETWORK = '198.19.0.0/24';

export const SSH_USER = 'kvmfn';
export const GUEST_BRIDGE = 'br0';
export const POOL = { name: 'default', target: '/var/lib/libvirt/images' } as const;
export const IMAGE_NAME = 'debian-12';

const LAB_DIRECTORY = import.meta.dirname;

/** Everything that `up` writes and `down` removes. */
export const RUN_DIRECTORY = join(LAB_DIRECTORY, '.run');
/** What survives `down`: the guest image. */
export const CACHE_DIRECTORY = join(LAB_DIRECTORY, '.cache');

export const files = {
  config: join(RUN_DIRECTORY, 'config.yaml'),
  privateKey: join(RUN_DIRECTORY, 'id_ed25519'),
  knownHosts: join(RUN_DIRECTORY, 'known_hosts'),
  logs: join(RUN_DIRECTORY, 'logs'),
} as const;

/** A host's own directories as the root namespace sees them; inside the host they stand at the paths in `host-init.sh`. */
export function hostDirectories(host: LabHost) {
  const root = join(RUN_DIRECTORY, 'hosts', host.name);
  return {
    root,
    etc: join(root, 'etc'),
    ssh: join(root, 'ssh'),
    libvirtConfiguration: join(root, 'libvirt'),
    libvirtState: join(root, 'lib'),
    pool: join(root, 'lib', 'images'),
    libvirtCache: join(root, 'cache'),
    logs: join(root, 'log'),
    consoles: join(root, 'log', 'consoles'),
  } as const;
}
