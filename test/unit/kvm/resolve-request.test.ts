import { describe, expect, it } from 'vitest';
import type { KvmProviderOptions } from '../../../lib/kvm/provider-options.ts';
import { requireScrubbable, resolveRequest } from '../../../lib/kvm/resolve-request.ts';
import type { CreateRequest } from '../../../lib/provider/provider.ts';
import type { ProviderError } from '../../../lib/provider/provider-error.ts';
import { OPTIONS } from './resolving-options.ts';

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

  describe('a seed to be scrubbed', () => {
    const asking: KvmProviderOptions = { ...OPTIONS, readiness: { cloudInit: true } };
    const scrubbing = (options: KvmProviderOptions): KvmProviderOptions => ({
      ...options,
      machineTypes: { small: { vcpus: 1, memoryMiB: 1024, seed: { scrub: true } } },
    });
    const cloudInit = Buffer.from('#cloud-config\nbootcmd: [[echo, hunter2]]\n');
    const faultsOf = (options: KvmProviderOptions, more: Partial<CreateRequest>) => {
      try {
        resolveRequest(options, { ...REQUEST, ...more });
      } catch (error) {
        return (error as ProviderError).errors;
      }
      return [];
    };

    it('is so by the request, else by its machine type, else not', () => {
      const scrubOf = (options: KvmProviderOptions, seed?: { scrub: boolean }) =>
        resolveRequest(options, seed === undefined ? REQUEST : { ...REQUEST, seed }).scrub;

      expect([scrubOf(asking), scrubOf(asking, { scrub: true })]).toEqual([false, true]);
      expect([scrubOf(scrubbing(asking)), scrubOf(scrubbing(asking), { scrub: false })]).toEqual([
        true,
        false,
      ]);
    });

    it('is refused where nobody asks guests whether cloud-init is done', () => {
      const pointers = (options: KvmProviderOptions, more: Partial<CreateRequest>) =>
        faultsOf(options, more).map(({ pointer }) => pointer);

      expect(pointers(OPTIONS, { seed: { scrub: true } })).toEqual(['/seed/scrub']);
      expect(pointers(scrubbing(OPTIONS), { seed: { scrub: false } })).toEqual([]);
    });

    it('is refused by its machine type’s word only once there is a VM to make', () => {
      const resolved = resolveRequest(scrubbing(OPTIONS), { ...REQUEST, cloudInit });

      expect(resolved.scrubFaults.map(({ pointer }) => pointer)).toEqual(['/seed/scrub', '/cloudInit']);
      expect(() => requireScrubbable(resolved)).toThrow(
        expect.objectContaining({ kind: 'invalid-request', errors: resolved.scrubFaults }),
      );
    });

    it('is refused with user-data that runs at every boot, with that reason', () => {
      expect(faultsOf(asking, { cloudInit, seed: { scrub: true } })).toEqual([
        {
          pointer: '/cloudInit',
          detail:
            'user-data: line 2, column 1: bootcmd: cloud-init takes it from the seed at every boot, and seed.scrub ' +
            'would take it away after the first',
        },
      ]);
      expect(faultsOf(asking, { cloudInit })).toEqual([]);
    });

    it('is refused with user-data that is too short to be replaced', () => {
      const vendorData = '#cloud-config\npackages: [a]\nruncmd: [b]\n';

      const faults = faultsOf(
        { ...asking, vendorData },
        { cloudInit: Buffer.from('#!/bin/true\n'), seed: { scrub: true } },
      );

      expect(faults).toEqual([
        { pointer: '/cloudInit', detail: 'with seed.scrub user-data has at least 17 bytes' },
      ]);
    });
  });
});
