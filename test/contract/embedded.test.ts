import { createEmbeddedLibvirt } from '../../infra/local/hypervisor/embedded-libvirt.ts';
import { providerContract } from './provider-contract.ts';

const HOSTS = [
  { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' },
  { name: 'kvm-b', pool: 'default', bridge: 'br0', virtType: 'kvm' },
] as const;

providerContract('embedded hypervisor', async () => {
  const daemons = new Map(HOSTS.map(({ name }) => [name as string, createEmbeddedLibvirt({ name, bootMs: 0 })]));
  return {
    hosts: HOSTS,
    dial: async (name) => {
      const stream = daemons.get(name)?.connect();
      if (stream === undefined) throw new Error(`no host ${name}`);
      return { stream, close: async () => void stream.destroy() };
    },
    close: async () => undefined,
  };
});
