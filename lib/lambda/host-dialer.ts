/** From a host's name to a byte stream to its libvirtd: the configuration says where it is, lib/ssh how to get there. */
import type { Config } from '../config/schema.ts';
import type { SshSecrets } from '../config/secrets.ts';
import type { ProbeHost } from '../kvm/doctor/examine-host.ts';
import type { Dial } from '../kvm/provider-options.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { parseKnownHosts } from '../ssh/known-hosts.ts';
import { probeHost } from '../ssh/probe.ts';
import { openTunnel, type SshTarget } from '../ssh/tunnel.ts';

/** Opens a fresh connection on every call; who keeps how many is the provider's business. */
export function createDialer(config: Config, secrets: SshSecrets): Dial {
  const targetOf = createTargets(config, secrets);
  return async (name, options) => await openTunnel(targetOf(name), options);
}

/** The same way, taken step by step. */
export function createProber(config: Config, secrets: SshSecrets): ProbeHost {
  const targetOf = createTargets(config, secrets);
  return async (name, options) => await probeHost(targetOf(name), options);
}

function createTargets(config: Config, secrets: SshSecrets): (name: string) => SshTarget {
  const knownHosts = parseKnownHosts(secrets.knownHosts);
  return (name) => {
    const host = config.hosts.find((candidate) => candidate.name === name);
    if (host === undefined) throw new ProviderError('not-found', 'there is no such host', { host: name });
    return {
      address: host.address,
      port: host.port,
      user: config.ssh.user,
      privateKey: secrets.privateKey,
      passphrase: secrets.passphrase,
      knownHosts,
      socketPath: host.socket,
      transport: host.transport,
    };
  };
}
