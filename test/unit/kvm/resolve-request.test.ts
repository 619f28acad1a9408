import { describe, expect, it } from 'vitest';
import type { KvmProviderOptions } from '../../../lib/kvm/provider-options.ts';
import { resolveRequest } from '../../../lib/kvm/resolve-request.ts';
import type { CreateRequest } from '../../../lib/provider/provider.ts';

const never = () => Promise.reject(new Error('nothing may be called'));
const OPTIONS: KvmProviderOptions = {
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
const REQUEST: CreateRequest = { name: 'vm-1', placement: { machineType: 'small', image: 'tiny' } };

describe('resolveRequest', () => {
  it('takes the only host where none is named, and asks for one where there are several', () => {
    const two = [
      ...OPTIONS.hosts,
      { name: 'kvm-b', pool: 'default', bridge: 'br0', virtType: 'kvm' as const },
    ];

    expect(resolveRequest(OPTIONS, REQUEST).host.name).toBe('kvm-a');
    expect(() => resolveRequest({ ...OPTIONS, hosts: two }, REQUEST)).toThrow(/one of kvm-a, kvm-b/);
  });

  it('calls wrong vendor-data what it is: a fault of the configuration, not of the request', () => {
    const attempt = () => resolveRequest({ ...OPTIONS, vendorData: '#cloud-config\na: [b\n' }, REQUEST);

    expect(attempt).toThrow(expect.objectContaining({ kind: 'permanent' }));
    expect(attempt).toThrow(/vendorData in the configuration/);
  });
});
