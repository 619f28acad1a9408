import { describe, expect, it } from 'vitest';
import { differingFields, specificationOf } from '../../../lib/kvm/specification.ts';
import type { CreateRequest } from '../../../lib/provider/provider.ts';

const UUID = '11111111-2222-4333-8444-555555555555';
const REQUEST: CreateRequest = {
  name: 'vm-1',
  placement: { host: 'kvm-a', machineType: 'small', image: 'debian-12' },
};
const spec = (more: Partial<CreateRequest> = {}) => specificationOf({ ...REQUEST, ...more }, UUID);

describe('specificationOf', () => {
  it('is the same for absent fields and their defaults, and for any order of keys', () => {
    const spelled = spec({
      autostart: true,
      protected: false,
      labels: {},
      sshAuthorizedKeys: [],
      cloudInit: Buffer.alloc(0),
    });

    expect(differingFields(spec(), spelled)).toEqual([]);
    expect(
      differingFields(spec({ labels: { a: '1', b: '2' } }), spec({ labels: { b: '2', a: '1' } })),
    ).toEqual([]);
    expect(
      differingFields(
        spec({ networkConfig: { version: 2, ethernets: { a: { dhcp4: true, mtu: 1 } } } }),
        spec({ networkConfig: { ethernets: { a: { mtu: 1, dhcp4: true } }, version: 2 } }),
      ),
    ).toEqual([]);
  });

  it('names every field that differs', () => {
    const other = spec({
      ...{ placement: { machineType: 'big', image: 'other' }, cloudInit: Buffer.from('x'), diskSizeGb: 1 },
      ...{ ttlSeconds: 1, labels: { a: 'b' }, protected: true, autostart: false, sshAuthorizedKeys: ['k'] },
      networkConfig: { version: 2 },
      seed: { scrub: true },
    });

    expect(differingFields(spec(), other)).toEqual([
      ...['autostart', 'cloudInit', 'diskSizeGb', 'labels', 'networkConfig', 'placement.image'],
      ...['placement.machineType', 'protected', 'seed.scrub', 'sshAuthorizedKeys', 'ttlSeconds'],
    ]);
  });

  it('holds no user-data, and its digest tells nothing without the UUID', () => {
    const request = { ...REQUEST, cloudInit: Buffer.from('#cloud-config\npassword: hunter2\n') };

    const [one, two] = [specificationOf(request, UUID), specificationOf(request, UUID.replace('1', '2'))];

    expect(JSON.stringify(one)).not.toContain('hunter2');
    expect(one['cloudInit']).not.toBe(two['cloudInit']);
  });
});
