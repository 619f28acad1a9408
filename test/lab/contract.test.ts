/** The contracts of provider and images on two real libvirtd, each reached through a real sshd in the way that its account allows. */
import { describe } from 'vitest';
import { loadConfig } from '../../lib/config/parse-config.ts';
import { resolveSecrets } from '../../lib/config/secrets.ts';
import { createDialer } from '../../lib/lambda/host-dialer.ts';
import { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { imageContract } from '../contract/image-contract.ts';
import { providerContract } from '../contract/provider-contract.ts';
import { files, POOL } from './topology.ts';

const NAMES = ['kvm-a', 'kvm-b'] as const;

for (const first of NAMES) {
  providerContract(`real libvirtd ${first}`, async () => {
    const { hosts, dial } = await openLab();
    const [a, b] = [...hosts].sort((left) => (left.name === first ? -1 : 1));
    if (a === undefined || b === undefined) throw new Error('the lab has two hosts');
    return { hosts: [a, b], dial, close: async () => undefined };
  });

  describe(`images on real libvirtd ${first}`, () => {
    imageContract(async () => {
      const { dial } = await openLab();
      return {
        pool: POOL.name,
        connect: async () => LibvirtConnection.open((await dial(first, { timeoutMs: 20_000 })).stream),
        close: async () => undefined,
      };
    });
  });
}

async function openLab() {
  const loaded = loadConfig(files.config);
  if (!loaded.ok) throw new Error(`${files.config}: ${JSON.stringify(loaded.faults)}`);
  const { config } = loaded;
  const readSecret = () => Promise.reject(new Error('the key of the lab is a file'));
  return { hosts: config.hosts, dial: createDialer(config, await resolveSecrets(config, { readSecret })) };
}
