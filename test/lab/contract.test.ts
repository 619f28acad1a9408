/** The contracts of provider and images on two real libvirtd, each reached through a real sshd in the way that its account allows. */
import { describe } from 'vitest';
import { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { imageContract } from '../contract/image-contract.ts';
import { providerContract } from '../contract/provider-contract.ts';
import { openLab } from './lab-fleet.ts';
import { POOL } from './topology.ts';

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
