import { describe, expect, it } from 'vitest';
import { chooseAddresses } from '../../../lib/kvm/addresses.ts';

const nic = (hwaddr: string | null, ...addrs: string[]) => ({
  name: 'nic',
  hwaddr,
  addrs: addrs.map((addr) => ({ type: addr.includes(':') ? 1 : 0, addr, prefix: 24 })),
});

describe('chooseAddresses', () => {
  it('LV-12: takes the address of the NIC with the MAC of the domain, in any spelling, whatever comes first', () => {
    const interfaces = [
      nic('00:00:00:00:00:00', '127.0.0.1', '::1'),
      nic('02:42:00:00:00:01', '172.17.0.1'),
      nic('52:54:00:AA:BB:01', 'fe80::1', '2001:db8::15', '192.0.2.15'),
      nic(null, '10.9.0.2'),
    ];

    const chosen = chooseAddresses(interfaces, ['52:54:00:aa:bb:01'], 'agent');

    expect(chosen.map(({ address }) => address)).toEqual(['192.0.2.15', '2001:db8::15']);
    expect(chosen[0]).toEqual({
      address: '192.0.2.15',
      family: 'ipv4',
      mac: '52:54:00:aa:bb:01',
      source: 'agent',
    });
  });

  it.each([
    '127.0.0.1',
    '127.1.2.3',
    '169.254.9.9',
    '0.0.0.0',
    'fe80::1',
    'FEBF::1',
    '::1',
    '::',
    'not-an-address',
    '',
  ])('never takes %j', (address) => {
    expect(chooseAddresses([nic('02:00:00:00:00:01', address)], ['02:00:00:00:00:01'], 'arp')).toEqual([]);
  });
});
