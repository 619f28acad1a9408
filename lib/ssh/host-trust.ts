/**
 * Whether a host may be talked to: what known_hosts says about this address and port, and the verdict on the key it
 * presents. There is no trust on first use and no way around it.
 */
import type { ServerHostKeyAlgorithm } from 'ssh2';
import { fingerprint } from './fingerprint.ts';
import { HOST_KEY_TYPES, hostKeyAlgorithms } from './host-key-algorithms.ts';
import { hostLookupName, matchesHost } from './host-patterns.ts';
import type { KnownHostEntry, KnownHosts } from './known-hosts.ts';
import { SshError } from './ssh-error.ts';

export interface HostTrust {
  /** The name looked up: `host`, or `[host]:port` when the port is not 22. */
  readonly name: string;
  /** What to offer in the handshake; never empty. */
  readonly algorithms: ServerHostKeyAlgorithm[];
  /** @returns null when the key is trusted, else the error to fail with. */
  judge(key: Buffer): SshError | null;
}

/**
 * Decides before anything is sent: a host without a usable key on file is not even connected to.
 * @throws SshError host-key-unknown, host-key-revoked
 */
export function trustHost(knownHosts: KnownHosts, address: string, port: number): HostTrust {
  const name = hostLookupName(address, port);
  const lines = knownHosts.entries.filter(({ hosts }) => matchesHost(hosts, name));
  const revoked = lines.filter(({ marker }) => marker === 'revoked');
  const onFile = lines.filter(({ marker }) => marker === null);
  const isRevoked = (key: Buffer): boolean => revoked.some((entry) => entry.key.equals(key));

  const valid = onFile.filter(({ key }) => !isRevoked(key));
  if (onFile.length > 0 && valid.length === 0) {
    throw new SshError('host-key-revoked', `every key on file for ${name} is marked @revoked in known_hosts`);
  }
  const algorithms = hostKeyAlgorithms(valid.map(({ type }) => type));
  if (algorithms.length === 0) {
    throw new SshError('host-key-unknown', whyUnknown(knownHosts, address, name, lines));
  }

  return {
    name,
    algorithms,
    judge: (key) => {
      if (isRevoked(key)) {
        return new SshError(
          'host-key-revoked',
          `${name} presented ${fingerprint(key)}, which known_hosts marks @revoked`,
        );
      }
      if (valid.some((entry) => entry.key.equals(key))) return null;
      return new SshError(
        'host-key-changed',
        `${name} presented ${fingerprint(key)}, but known_hosts has ${valid.map(describeEntry).join(', ')}: ` +
          'either its keys were renewed or somebody is in between',
      );
    },
  };
}

/** Trusts no key, but lets the host present whichever it has: for finding out which, never for logging in. */
export function distrustHost(address: string, port: number, verdict: SshError): HostTrust {
  return {
    name: hostLookupName(address, port),
    algorithms: hostKeyAlgorithms(HOST_KEY_TYPES),
    judge: () => verdict,
  };
}

function whyUnknown(
  knownHosts: KnownHosts,
  address: string,
  name: string,
  lines: readonly KnownHostEntry[],
): string {
  const missing = `known_hosts has no usable key for ${name}`;
  const types = lines.filter(({ marker }) => marker === null).map(({ type }) => type);
  if (types.length > 0) {
    return `${missing}: it has ${types.join(', ')}, usable are ${HOST_KEY_TYPES.join(', ')}`;
  }
  if (lines.some(({ marker }) => marker === 'cert-authority')) {
    return `${missing}: it has a certificate authority, and host certificates are not supported; add the host's own key`;
  }
  const bare = hostLookupName(address, 22);
  if (bare !== name && knownHosts.entries.some(({ hosts }) => matchesHost(hosts, bare))) {
    return `${missing}: it has one for ${bare}, which means port 22; another port is written as ${name}`;
  }
  return missing;
}

function describeEntry({ type, key, line }: KnownHostEntry): string {
  return `${type} ${fingerprint(key)} (line ${line})`;
}
