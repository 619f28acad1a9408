/** The options of a provider that is asked to resolve requests and nothing else: whatever it calls fails the test. */
import type { KvmProviderOptions } from '../../../lib/kvm/provider-options.ts';

const never = () => Promise.reject(new Error('nothing may be called'));
export const OPTIONS: KvmProviderOptions = {
  fleet: 'demo',
  hosts: [{ name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' }],
  machineTypes: { small: { vcpus: 1, memoryMiB: 1024 } },
  images: {
    tiny: { url: 'https://images.example.com/a', format: 'raw', checksum: `sha256:${'0'.repeat(64)}` },
  },
  diskSizeGb: 10,
  vendorData: '',
  deadlines: { createSeconds: 3600, deleteSeconds: 600 },
  dial: never,
  enqueue: never,
  fetch: never,
  now: () => 0,
  randomUuid: () => 'u',
  deadlineAt: 1,
  canImport: false,
};
