/** The provider's contract on the embedded hypervisor, reached the way a real one is: SSH, host key, key, forwarding. */
import { type EmbeddedHost, startEmbeddedHost } from '../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../infra/local/hypervisor/ssh-key.ts';
import { parseKnownHosts } from '../../lib/ssh/known-hosts.ts';
import { openTunnel } from '../../lib/ssh/tunnel.ts';
import { providerContract } from './provider-contract.ts';

const HOSTS = [
  { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' },
  { name: 'kvm-b', pool: 'default', bridge: 'br0', virtType: 'kvm' },
] as const;

providerContract('embedded hypervisor', async () => {
  const key = generateSshKey();
  const embedded = new Map<string, EmbeddedHost>();
  for (const { name } of HOSTS) {
    embedded.set(name, await startEmbeddedHost({ name, bootMs: 0, authorizedKeys: [key.publicKey] }));
  }
  return {
    hosts: HOSTS,
    dial: async (name, options) => {
      const host = embedded.get(name);
      if (host === undefined) throw new Error(`no host ${name}`);
      const { address, port, user, socketPath, knownHosts } = host;
      const trusted = parseKnownHosts(knownHosts);
      return await openTunnel(
        {
          address,
          port,
          user,
          privateKey: key.privateKey,
          knownHosts: trusted,
          socketPath,
          transport: 'socket',
        },
        options,
      );
    },
    close: async () => {
      for (const host of embedded.values()) await host.close();
    },
  };
});
