import { afterAll, describe, expect, it } from 'vitest';
import { renderMetaData } from '../../../lib/seed/meta-data.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { buildSeed, type SeedInput } from '../../../lib/seed/seed.ts';
import { readImage } from './iso-reader.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const KEY =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBERERERERERERERERERERERERERERERERERERERERER it’s me: "a" #1 😀';

const prepared = prepareUserData(new Uint8Array(), '');
const input: SeedInput = {
  instanceId: 'vm1-0b1c',
  hostname: 'vm1',
  userData: prepared.userData,
  vendorData: prepared.vendorData,
  mac: '02:11:22:33:44:55',
  sshAuthorizedKeys: [],
  createdAt: new Date('2026-01-31T12:00:00.000Z'),
};

function filesOf(seed: Uint8Array): Record<string, string> {
  const image = Buffer.from(seed);
  return Object.fromEntries(
    readImage(image).joliet.files.map(({ name, sector, bytes }) => [
      name,
      image.subarray(sector * 2048, sector * 2048 + bytes).toString(),
    ]),
  );
}

describe('buildSeed', () => {
  it('SD-03: holds user-data and meta-data with its two fields even when nothing was asked for', () => {
    const files = filesOf(buildSeed(input));

    expect(Object.keys(files).toSorted()).toEqual(['meta-data', 'user-data', 'vendor-data']);
    expect(files['meta-data']).toBe('instance-id: "vm1-0b1c"\nlocal-hostname: "vm1"\n');
    expect(files['user-data']).toMatch(/^#cloud-config\n/);
    expect(files['vendor-data']).toBe('');
  });

  it('SD-05: carries the label cidata', () => {
    expect(readImage(Buffer.from(buildSeed(input))).primary.volumeId).toBe('cidata');
  });

  it('SD-06: says the instance-id it was given, and nothing else tells two incarnations apart', () => {
    const again = filesOf(buildSeed({ ...input, instanceId: 'vm1-9f9f' }));

    expect(again['meta-data']).toContain('vm1-9f9f');
    expect(again['user-data']).toBe(filesOf(buildSeed(input))['user-data']);
  });

  it('gives the same bytes for the same input', () => {
    const whole = { ...input, sshAuthorizedKeys: [KEY], networkConfig: { version: 2, ethernets: {} } };

    expect(buildSeed(whole)).toEqual(buildSeed(structuredClone(whole)));
  });

  it('writes a network configuration with the VM’s MAC in every place that asks for it', () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is these characters
    const placeholder = '${mac}';
    const networkConfig = {
      version: 2,
      ethernets: {
        eth: {
          match: { macaddress: placeholder },
          'set-name': 'lan0',
          note: `${placeholder}/${placeholder}`,
        },
      },
    };

    const files = filesOf(buildSeed({ ...input, networkConfig }));

    expect(files['network-config']).toBe(
      '{"version": 2, "ethernets": {"eth": {"match": {"macaddress": "02:11:22:33:44:55"}, "set-name": "lan0", "note": "02:11:22:33:44:55/02:11:22:33:44:55"}}}\n',
    );
  });
});

describe.skipIf(!oracleIsInstalled)('cloud-init reads of a seed', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  it('the identity and the keys, whatever characters are in them', async () => {
    const { metaData, keys } = await oracle.publicKeys(
      renderMetaData({
        instanceId: 'vm1: #\u2028\u007f"\\',
        hostname: 'yes',
        sshAuthorizedKeys: [KEY, `  ${KEY}\n`],
      }),
    );

    expect(metaData).toEqual({
      dict: [
        ['instance-id', 'vm1: #\u2028\u007f"\\'],
        ['local-hostname', 'yes'],
        ['public-keys', [KEY, KEY]],
      ],
    });
    const [type, base64, ...comment] = KEY.split(' ');
    const parsed = [null, type, base64, comment.join(' '), true];
    expect(keys).toEqual([parsed, parsed]);
  });

  it.each([
    [
      'version 1',
      {
        version: 1,
        config: [
          {
            type: 'physical',
            name: 'eth0',
            mac_address: '02:11:22:33:44:55',
            subnets: [{ type: 'static', address: '192.0.2.9/24', gateway: '192.0.2.1' }],
          },
        ],
      },
      ['eth0'],
    ],
    [
      'version 2',
      {
        version: 2,
        ethernets: { lan: { match: { macaddress: '02:11:22:33:44:55' }, 'set-name': 'lan', dhcp4: true } },
      },
      ['lan'],
    ],
    ['version 2 inside network', { network: { version: 2, ethernets: { lan: { dhcp4: true } } } }, ['lan']],
  ])('a network configuration of %s', async (_name, networkConfig, interfaces) => {
    const files = filesOf(buildSeed({ ...input, networkConfig }));

    expect((await oracle.network(files['network-config'] ?? '')).interfaces).toEqual(interfaces);
  });

  it('every value of a network configuration as it was sent', async () => {
    const values = [
      'yes',
      '012',
      '12:30:45',
      '1e3',
      '',
      ' a ',
      'é😀',
      '\u0000\u0085\u2028\u007f\t\n',
      '"\\',
      'a: b # c',
    ];
    const networkConfig = {
      version: 2,
      values,
      numbers: [0, -7, 1.5, 1e21, 1e-7, 2 ** 53],
      others: [true, false, null, [], {}],
      '1': { yes: 1 },
    };

    const reading = await oracle.yaml(
      filesOf(buildSeed({ ...input, networkConfig }))['network-config'] ?? '',
    );

    expect(reading).toHaveProperty('value');
    const value = 'value' in reading ? reading.value : null;
    expect(value).toEqual({
      dict: [
        ['1', { dict: [['yes', { int: '0x1' }]] }],
        ['version', { int: '0x2' }],
        ['values', values],
        [
          'numbers',
          [
            { int: '0x0' },
            { int: '-0x7' },
            { float: '1.5' },
            { float: '1e+21' },
            { float: '1e-07' },
            { int: '0x20000000000000' },
          ],
        ],
        ['others', [{ bool: true }, { bool: false }, null, [], { dict: [] }]],
      ],
    });
  });
});
