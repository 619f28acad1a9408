/** From a host's name to a byte stream to its libvirtd: the configuration says where it is, lib/ssh how to get there. */
import type { Config } from '../config/schema.ts';
import type { SshSecrets } from '../config/secrets.ts';
import type { Dial } from '../kvm/provider-options.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { parseKnownHosts } from '../ssh/known-hosts.ts';
import { openTunnel } from '../ssh/tunnel.ts';

/** Opens a fresh connection on every call; who keeps how many is the provider's business. */
export function createDialer(config: Config, secrets: SshSecrets): Dial {
  const knownHosts = parseKnownHosts(secrets.knownHosts);
  return async (name, options) => {
    const host = config.hosts.find((candidate) => candidate.name === name);
    if (host === undefined) throw new ProviderError('not-found', 'there is no such host', { host: name });
    return await openTunnel(
      {
        address: host.address,
        port: host.port,
        user: config.ssh.user,
        privateKey: secrets.privateKey,
        passphrase: secrets.passphrase,
        knownHosts,
        socketPath: host.socket,
        transport: host.transport,
      },
      options,
    );
  };
}
