import { describe, expect, it } from 'vitest';
import { NetworkConfigError, validateNetworkConfig } from '../../../lib/seed/network-config.ts';

describe('validateNetworkConfig', () => {
  it.each([
    { version: 1, config: 'disabled' },
    { version: 1, config: [] },
    { version: 1, config: [{ type: 'nameserver', address: '192.0.2.1' }] },
    {
      version: 1,
      config: [{ type: 'bond', name: 'b0', bond_interfaces: ['a'], subnets: [{ type: 'dhcp' }] }],
    },
    { version: 2 },
    { version: 2, renderer: 'networkd', ethernets: { all: { match: { name: 'e*' }, dhcp4: true } } },
    { network: { version: 2, vlans: {} } },
  ])('takes %j', (config) => {
    expect(() => validateNetworkConfig(config)).not.toThrow();
  });

  it.each([
    [null, 'must be an object'],
    ['version: 2', 'must be an object'],
    [[], 'must be an object'],
    [{}, '/version must be the number 1 or 2'],
    [{ version: '2' }, '/version must be the number 1 or 2'],
    [{ version: 3 }, '/version must be the number 1 or 2'],
    [{ network: [] }, '/network must be an object'],
    [{ network: { version: 0 } }, '/network/version'],
    [{ version: 1 }, '/config must be a list'],
    [{ version: 1, config: {} }, '/config must be a list'],
    [{ version: 1, config: ['eth0'] }, '/config/0 must be an object'],
    [{ version: 1, config: [{ type: 'ethernet', name: 'a' }] }, '/config/0/type must be one of'],
    [{ version: 1, config: [{ type: 'physical' }] }, '/config/0/name'],
    [{ version: 1, config: [{ type: 'physical', name: 'a', subnets: [{}] }] }, '/config/0/subnets'],
    [{ version: 2, ethernets: [] }, '/ethernets must be an object'],
    [{ version: 2, ethernets: { a: null } }, '/ethernets/a must be an object'],
    [{ version: 2, a: Number.NaN }, '/a is not a value of JSON'],
    [{ version: 2, a: undefined }, '/a is not a value of JSON'],
    [{ version: 2, a: '\ud800' }, '/a contains half of a surrogate pair'],
    [{ version: 2, ['k'.repeat(1001)]: 1 }, 'has a key longer than'],
  ])('refuses %j and says where', (config, reason) => {
    expect(() => validateNetworkConfig(config)).toThrow(NetworkConfigError);
    expect(() => validateNetworkConfig(config)).toThrow(reason);
  });

  it('refuses nesting without end', () => {
    let config: object = { version: 2 };
    for (let depth = 0; depth < 50_000; depth++) {
      config = { version: 2, a: config };
    }

    expect(() => validateNetworkConfig(config)).toThrow('nested deeper');
  });
});
