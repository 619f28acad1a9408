/** The image contract on the embedded hypervisor. On a real libvirtd it runs in the lab. */
import { describe } from 'vitest';
import { createEmbeddedLibvirt } from '../../infra/local/hypervisor/embedded-libvirt.ts';
import { LibvirtConnection } from '../../lib/libvirt/index.ts';
import { imageContract } from './image-contract.ts';

describe('images on the embedded hypervisor', () => {
  imageContract(async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    return {
      pool: 'default',
      connect: () => LibvirtConnection.open(daemon.connect()),
      close: () => Promise.resolve(),
    };
  });
});
