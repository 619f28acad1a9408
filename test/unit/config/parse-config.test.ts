import { describe, expect, it } from 'vitest';
import { ConfigError, type ConfigFault, formatFault } from '../../../lib/config/fault.ts';
import { loadConfig, parseConfig, requireConfig } from '../../../lib/config/parse-config.ts';
import type { Config } from '../../../lib/config/schema.ts';
import { shippedConfig } from '../../../lib/config/shipped-config.ts';
import { KEY_A, lineOf, SAMPLE, sampleWith } from './sample-config.ts';

type Use = 'synth' | 'run';

function accepted(text: string, use: Use = 'run'): Config {
  const result = parseConfig(text, { file: '/etc/kvmfn/config.yaml', use });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.config;
}

function refused(text: string, use: Use = 'run'): readonly ConfigFault[] {
  const result = parseConfig(text, { file: '/etc/kvmfn/config.yaml', use });
  if (result.ok) throw new Error('the configuration was accepted');
  return result.faults;
}

describe('a sound configuration', () => {
  it('gets every default that the contract names', () => {
    const config = accepted(SAMPLE);

    expect(config.hosts[0]).toEqual({
      name: 'kvm-a',
      address: '10.20.0.11',
      bridge: 'br0',
      port: 22,
      socket: '/run/libvirt/libvirt-sock',
      transport: 'auto',
      pool: 'default',
      virtType: 'kvm',
    });
    expect(config.diskSizeGb).toBe(10);
    expect(config.vendorData).toBe('');
    expect(config.deadlines).toEqual({ createSeconds: 3600, deleteSeconds: 600 });
    expect(config.gc).toEqual({ mode: 'report', graceSeconds: 3600, maxDeletes: 10, maxPercent: 20 });
  });

  it('asks guests nothing and scrubs no seed unless it says so', () => {
    const text = sampleWith('memoryMiB: 1024 }', 'memoryMiB: 1024, seed: { scrub: true } }');

    expect(accepted(SAMPLE).readiness).toEqual({ cloudInit: false });
    expect(accepted(SAMPLE).machineTypes['small']?.seed).toBeUndefined();
    expect(accepted(`${text}readiness: { cloudInit: true }\n`).machineTypes['small']?.seed).toEqual({
      scrub: true,
    });
  });

  it('keeps the defaults of what a half-written section leaves out', () => {
    const config = accepted(`${SAMPLE}gc: { mode: delete }\n`);

    expect(config.gc).toEqual({ mode: 'delete', graceSeconds: 3600, maxDeletes: 10, maxPercent: 20 });
  });

  it('carries the checksum in lower case, because volume names are made of it', () => {
    expect(accepted(SAMPLE).images['debian-12']?.checksum).toBe(`sha256:${'ab'.repeat(32)}`);
  });

  it('may lack the aws section unless it is synthesised', () => {
    const text = SAMPLE.slice(0, SAMPLE.indexOf('aws:'));

    expect(accepted(text).aws).toBeUndefined();
    expect(refused(text, 'synth')).toEqual([{ path: 'aws', line: 1, detail: 'is missing' }]);
  });

  it('may use anchors and merge keys for hosts that differ in little', () => {
    const text = sampleWith(
      '{ name: kvm-b, address: 10.20.0.12, port: 2222, bridge: br0 }',
      '{ <<: *a, name: kvm-b, address: 10.20.0.12, port: 2222 }',
    ).replace('- { name: kvm-a', '- &a { name: kvm-a');

    expect(accepted(text).hosts[1]).toMatchObject({ name: 'kvm-b', bridge: 'br0', port: 2222 });
  });

  it('takes file paths relative to its own folder', () => {
    const text = sampleWith('{ secret: kvm-functions/ssh-key }', '{ file: keys/id_ed25519 }');

    expect(accepted(text).ssh.privateKey).toEqual({ file: '/etc/kvmfn/keys/id_ed25519' });
  });

  it('has known_hosts read in from the file it names', () => {
    const start = SAMPLE.indexOf('    text: |');
    const text = `${SAMPLE.slice(0, start)}    file: ./known_hosts\n${SAMPLE.slice(SAMPLE.indexOf('hosts:\n'))}`;
    const read: string[] = [];

    const result = parseConfig(text, {
      file: '/etc/kvmfn/config.yaml',
      readText: (path) => {
        read.push(path);
        return `10.20.0.11,[10.20.0.12]:2222 ${KEY_A}\n`;
      },
    });

    expect(read).toEqual(['/etc/kvmfn/known_hosts']);
    expect(result).toMatchObject({
      ok: true,
      config: { ssh: { knownHosts: { text: `10.20.0.11,[10.20.0.12]:2222 ${KEY_A}\n` } } },
    });
  });
});

describe('a faulty configuration', () => {
  const cases: [rule: string, piece: string, replacement: string, path: string, detail: RegExp][] = [
    ['an unknown key', 'user: kvmfn', 'user: kvmfn\n  usr: x', 'ssh.usr', /not a known key/],
    ['an unknown key in a host', 'port: 2222', 'prt: 1, port: 2222', 'hosts[1].prt', /not a known key/],
    ['a missing field', 'vcpus: 1, ', '', 'machineTypes.small.vcpus', /is missing/],
    ['a missing text', ', bridge: br0 }\nmachine', ' }\nmachine', 'hosts[1].bridge', /is missing/],
    ['a number for a text', 'fleet: demo', 'fleet: 7', 'fleet', /a string, not a number \(quote it\)/],
    ['a text for a number', 'vcpus: 1', 'vcpus: "1"', 'machineTypes.small.vcpus', /whole number from 1/],
    ['a fraction', 'vcpus: 1', 'vcpus: 1.5', 'machineTypes.small.vcpus', /whole number from 1/],
    ['too little', 'memoryMiB: 1024', 'memoryMiB: 0', 'machineTypes.small.memoryMiB', /from 64/],
    ['too much', 'vcpus: 1', 'vcpus: 100000', 'machineTypes.small.vcpus', /to 512/],
    [
      'an empty section',
      'machineTypes:\n  small: { vcpus: 1, memoryMiB: 1024 }',
      'machineTypes:',
      'machineTypes',
      /a mapping, not empty/,
    ],
    ['no machine type', '\n  small: { vcpus: 1, memoryMiB: 1024 }', ' {}', 'machineTypes', /at least one/],
    ['a fleet that is no label', 'fleet: demo', 'fleet: demo_1', 'fleet', /DNS label/],
    ['a host name that is no label', 'name: kvm-a', 'name: KVM-A', 'hosts[0].name', /DNS label/],
    ['a machine type that is no label', '  small:', '  Small Box:', 'machineTypes["Small Box"]', /DNS label/],
    ['an image that is no label', '  debian-12:', '  debian-12.5:', 'images["debian-12.5"]', /DNS label/],
    ['two hosts of one name', 'name: kvm-b', 'name: kvm-a', 'hosts[1].name', /also the name of hosts\[0\]/],
    [
      'two hosts on one daemon',
      'address: 10.20.0.12, port: 2222',
      'address: 10.20.0.11',
      'hosts[1].address',
      /also the address of hosts\[0\]/,
    ],
    ['a key that is there twice', 'user: kvmfn', 'user: kvmfn\n  user: root', 'ssh.user', /there twice/],
    [
      'an address that is none',
      'address: 10.20.0.11',
      'address: 10.20.0.999',
      'hosts[0].address',
      /IP address or a host name/,
    ],
    ['a port out of range', 'port: 2222', 'port: 70000', 'hosts[1].port', /from 1 to 65535/],
    [
      'a bridge name that Linux refuses',
      'bridge: br0 }\n  -',
      'bridge: bridge-too-long-0 }\n  -',
      'hosts[0].bridge',
      /interface name/,
    ],
    [
      'a bridge with a slash',
      'bridge: br0 }\n  -',
      'bridge: br/0 }\n  -',
      'hosts[0].bridge',
      /interface name/,
    ],
    ['a relative socket', 'port: 2222', 'port: 2222, socket: run/x', 'hosts[1].socket', /absolute path/],
    [
      'a socket beyond sun_path',
      'port: 2222',
      `port: 2222, socket: /${'x'.repeat(107)}`,
      'hosts[1].socket',
      /107 bytes/,
    ],
    [
      'a transport that is none',
      'port: 2222',
      'port: 2222, transport: tcp',
      'hosts[1].transport',
      /auto or socket or helper/,
    ],
    ['a pool with a slash', 'port: 2222', 'port: 2222, pool: a/b', 'hosts[1].pool', /storage pool/],
    ['a checksum of another kind', 'sha256:', 'md5:', 'images.debian-12.checksum', /sha256: and 64/],
    ['a checksum too short', 'ABAB', 'AB', 'images.debian-12.checksum', /sha256: and 64/],
    [
      'a URL that is none',
      'https://example.com/d.qcow2',
      'debian.qcow2',
      'images.debian-12.url',
      /must be a URL/,
    ],
    ['a URL of another scheme', 'https://', 'ftp://', 'images.debian-12.url', /http, https or file/],
    ['a URL with a password', 'https://', 'https://u:p@', 'images.debian-12.url', /user name or a password/],
    ['a format that is none', 'format: qcow2', 'format: vmdk', 'images.debian-12.format', /qcow2 or raw/],
    [
      'a key from two places',
      '{ secret: kvm-functions/ssh-key }',
      '{ secret: a, file: b }',
      'ssh.privateKey',
      /either `secret` or `file`/,
    ],
    [
      'a key from nowhere',
      '{ secret: kvm-functions/ssh-key }',
      '{ env: KEY }',
      'ssh.privateKey',
      /either `secret` or `file`/,
    ],
    ['a secret that cannot be one', 'kvm-functions/ssh-key', '"a b"', 'ssh.privateKey.secret', /name or ARN/],
    ['a user that cannot be one', 'user: kvmfn', 'user: "-oProxyCommand=x"', 'ssh.user', /user name/],
    ['a gc mode of a later issue', 'aws:', 'gc: { mode: mark }\naws:', 'gc.mode', /report or delete/],
    ['more than all', 'aws:', 'gc: { maxPercent: 101 }\naws:', 'gc.maxPercent', /from 0 to 100/],
    [
      'a deadline of no time',
      'aws:',
      'deadlines: { createSeconds: 0 }\naws:',
      'deadlines.createSeconds',
      /from 1 to/,
    ],
    ['a disk of nothing', 'aws:', 'diskSizeGb: 0\naws:', 'diskSizeGb', /from 1 to/],
    ['a VPC of two kinds', 'vpc: { new:', 'vpc: { id: vpc-12345678, new:', 'aws.vpc', /either `new` or `id`/],
    [
      'a network with host bits',
      'onPremCidrs: [10.20.0.0/16]',
      'onPremCidrs: [10.20.0.1/16]',
      'aws.onPremCidrs[0]',
      /without host bits/,
    ],
    [
      'a VPC larger than AWS gives',
      'cidr: 10.90.0.0/16',
      'cidr: 10.0.0.0/8',
      'aws.vpc.new.cidr',
      /between \/16 and \/24/,
    ],
    [
      'a VPC that overlaps the premises',
      'cidr: 10.90.0.0/16',
      'cidr: 10.20.0.0/20',
      'aws.onPremCidrs[0]',
      /overlaps aws.vpc.new.cidr/,
    ],
    [
      'a gateway that is no address',
      '203.0.113.10',
      'vpn.example.com',
      'aws.vpc.new.customerGatewayIp',
      /IPv4 address/,
    ],
    ['a schedule in words', 'rate(5 minutes)', 'every 5 minutes', 'aws.schedule', /rate\(N/],
    ['a rate of nothing', 'rate(5 minutes)', 'rate(0 minutes)', 'aws.schedule', /above 0/],
    ['a cron of five fields', 'rate(5 minutes)', 'cron(0 3 * * ?)', 'aws.schedule', /six fields/],
    ['a cron with both days', 'rate(5 minutes)', 'cron(0 3 * * * *)', 'aws.schedule', /have \? as/],
    [
      'an image the worker cannot reach',
      'egress: nat',
      'egress: endpoints',
      'images.debian-12.url',
      /on S3 or at an address inside/,
    ],
    [
      'a host that known_hosts lacks',
      'address: 10.20.0.11',
      'address: 10.20.0.13',
      'hosts[0].address',
      /known_hosts has no usable key for 10.20.0.13/,
    ],
    [
      'a known_hosts entry of another port',
      ' port: 2222,',
      '',
      'hosts[1].address',
      /known_hosts has no usable key for 10.20.0.12/,
    ],
    [
      'no host',
      SAMPLE.slice(SAMPLE.indexOf('\n  - {'), SAMPLE.indexOf('\nmachineTypes')),
      ' []',
      'hosts',
      /at least one host/,
    ],
  ];

  it.each(cases)('is refused for %s, naming the place', (_, piece, replacement, path, detail) => {
    const faults = refused(sampleWith(piece, replacement));

    expect(faults).toContainEqual({ path, line: expect.any(Number), detail: expect.stringMatching(detail) });
  });

  it('names every fault at once, also those between fields, each with its line', () => {
    const text = SAMPLE.replace('fleet: demo', 'fleet: Demo')
      .replace('name: kvm-b', 'name: kvm-a')
      .replace('vcpus: 1', 'vcpus: none')
      .replace('format: qcow2', 'format: vmdk')
      .replace('203.0.113.10', 'nowhere')
      .replace('egress: nat', 'egress: endpoints\n  colour: blue');

    const faults = refused(text);

    expect(faults.map(({ path, line }) => [path, line])).toEqual([
      ['fleet', 1],
      ['hosts[1].name', lineOf(text, 'port: 2222')],
      ['machineTypes.small.vcpus', lineOf(text, 'vcpus')],
      ['images.debian-12.format', lineOf(text, 'vmdk')],
      ['images.debian-12.url', lineOf(text, 'vmdk')],
      ['aws.vpc.new.customerGatewayIp', lineOf(text, 'nowhere')],
      ['aws.colour', lineOf(text, 'colour')],
    ]);
  });

  it('is refused for a damaged known_hosts line, at that very line', () => {
    const text = sampleWith(
      '      [10.20.0.12]:2222 ssh-ed25519 AAAA',
      '      # b\n      [10.20.0.12]:2222 ssh-ed25519 @AAA',
    );

    const faults = refused(text);

    expect(faults).toContainEqual({
      path: 'ssh.knownHosts.text',
      line: lineOf(text, '@AAA'),
      detail: expect.stringContaining('base64'),
    });
  });

  it('is refused for a known_hosts file that is missing or damaged, naming the line in that file', () => {
    const start = SAMPLE.indexOf('    text: |');
    const text = `${SAMPLE.slice(0, start)}    file: kh\n${SAMPLE.slice(SAMPLE.indexOf('hosts:\n'))}`;
    const read = (readText: (path: string) => string) => parseConfig(text, { file: 'config.yaml', readText });
    const missing = read(() => {
      throw new Error('ENOENT: no such file');
    });
    const damaged = read(() => `# ours\n10.20.0.11,[10.20.0.12]:2222 ${KEY_A}\nrubbish\n`);

    const place = { path: 'ssh.knownHosts.file', line: lineOf(text, 'file: kh') };
    expect(missing).toEqual({ ok: false, faults: [{ ...place, detail: expect.stringContaining('ENOENT') }] });
    expect(damaged).toEqual({
      ok: false,
      faults: [{ ...place, detail: expect.stringMatching(/^line 3: /) }],
    });
  });

  it('is refused for a machine type whose seeds could never be scrubbed', () => {
    const text = sampleWith('memoryMiB: 1024 }', 'memoryMiB: 1024, seed: { scrub: true } }');
    const fault = {
      path: 'machineTypes.small.seed.scrub',
      line: lineOf(text, 'seed: { scrub'),
      detail: 'needs readiness.cloudInit: true, which says when cloud-init is done',
    };

    expect(refused(text)).toEqual([fault]);
    expect(refused(`${text}readiness: { cloudInit: false }\n`)).toEqual([fault]);
    expect(refused(`${text}readiness: { cloudInit: "yes" }\n`)).toContainEqual(fault);
  });

  it('points into the anchor for what a merge key brought along', () => {
    const text = `x: &base { port: none }\n${SAMPLE}`.replace('{ name: kvm-a', '{ <<: *base, name: kvm-a');

    expect(refused(text)).toContainEqual(expect.objectContaining({ path: 'hosts[0].port', line: 1 }));
  });

  it.each([
    ['nothing at all', '', 1, /mapping/],
    ['a list', '- a\n', 1, /mapping/],
    ['a tab as indentation', 'fleet: demo\nssh:\n\tuser: x\n', 3, /[Tt]ab/],
    ['a bracket left open', 'fleet: demo\nhosts: [a\nssh: 1\n', 3, /./],
    ['two documents', 'fleet: a\n---\nfleet: b\n', 2, /second document/],
    ['an anchor that is not there', 'fleet: *x\n', 1, /alias/],
    ['lists in lists without end', '- '.repeat(5_000), 1, /^nested too deeply$/],
    ['brackets in brackets', `fleet: ${'['.repeat(20_000)}`, 1, /^nested too deeply$/],
    ['a tag nobody knows', 'fleet: demo\nssh: !vault x\n', 2, /tag/i],
    ['a key that would set a prototype', `images: {}\n__proto__: { a: 1 }\n`, 2, /cannot be a key/],
    ['a mapping as a key', `? { a: 1 }\n: 2\n`, 1, /not a plain word/],
  ])('is refused for %s', (_, text, line, detail) => {
    expect(refused(text)).toContainEqual(
      expect.objectContaining({ line, detail: expect.stringMatching(detail) }),
    );
  });

  it.each(['&', ']', '*', '!', '|', '>', '!<', '"" ', '- ', '%', '"\\'])(
    'quotes nothing of what stands behind %s, which may be a key in the wrong place',
    (sign) => {
      for (const text of [`ssh: ${sign}b3BlbnNzaC1rZXk\n`, `fleet: demo\n${sign}b3BlbnNzaC1rZXk\n---\n`]) {
        expect(JSON.stringify(refused(text).map(({ detail }) => detail))).not.toContain('b3BlbnNzaC1rZXk');
      }
    },
  );

  it('is refused for aliases that multiply, without spending the memory', () => {
    const rows = Array.from(
      { length: 9 },
      (_, row) => `k${row + 1}: &a${row + 1} [${`*a${row},`.repeat(9)}]`,
    );

    expect(refused(`k0: &a0 [x]\n${rows.join('\n')}\n`)).toEqual([
      { path: '', line: 1, detail: expect.stringMatching(/alias/i) },
    ]);
  });

  it('never shows a value of the file: a key pasted into the wrong field must not reach a log', () => {
    const secret = '-----BEGIN-OPENSSH-PRIVATE-KEY-----';
    for (const piece of [
      'kvmfn\n',
      'kvm-functions/ssh-key',
      'br0',
      'demo',
      'rate(5 minutes)',
      '203.0.113.10',
    ]) {
      expect(
        JSON.stringify(refused(sampleWith(piece, `"${secret} x"${piece.endsWith('\n') ? '\n' : ''}`))),
      ).not.toContain('PRIVATE');
    }
  });
});

describe('what may be deployed', () => {
  it('has its private key in Secrets Manager', () => {
    const text = sampleWith('{ secret: kvm-functions/ssh-key }', '{ file: ./key }');

    expect(accepted(text, 'run').ssh.privateKey).toEqual({ file: '/etc/kvmfn/key' });
    expect(refused(text, 'synth')).toEqual([
      { path: 'ssh.privateKey.file', line: 4, detail: expect.stringContaining('local use only') },
    ]);
  });

  it('has no image from a local file', () => {
    const text = sampleWith('https://example.com/d.qcow2', 'file:///srv/d.qcow2');

    expect(accepted(text, 'run').images['debian-12']?.url).toBe('file:///srv/d.qcow2');
    expect(refused(text, 'synth')).toEqual([
      expect.objectContaining({ path: 'images.debian-12.url', detail: expect.stringContaining('local use') }),
    ]);
  });

  it.each([
    'https://images.s3.eu-central-1.amazonaws.com/d.qcow2',
    'https://s3.eu-central-1.amazonaws.com/images/d.qcow2',
    'https://images.s3.dualstack.eu-central-1.amazonaws.com/d.qcow2',
    'https://images.s3.amazonaws.com/d.qcow2',
    'http://10.20.0.5:8080/d.qcow2',
  ])('reaches %s without NAT', (url) => {
    const text = sampleWith('https://example.com/d.qcow2', url).replace('egress: nat', 'egress: endpoints');

    expect(accepted(text, 'synth').aws?.egress).toBe('endpoints');
  });

  it.each([
    'https://s3.eu-central-1.amazonaws.com.example.com/d.qcow2',
    'https://nots3.example.com/d.qcow2',
    'https://images.example-s3.amazonaws.org/d.qcow2',
    'http://10.21.0.5/d.qcow2',
    'http://mirror.lan/d.qcow2',
  ])('does not reach %s without NAT', (url) => {
    const text = sampleWith('https://example.com/d.qcow2', url).replace('egress: nat', 'egress: endpoints');

    expect(refused(text, 'synth').map(({ path }) => path)).toEqual(['images.debian-12.url']);
  });

  it('may stand in an existing VPC, whose ids and zones are written out', () => {
    const existing =
      'vpc: { id: vpc-0123456789abcdef0, cidr: 10.0.0.0/16, subnetIds: [subnet-01234567, subnet-89abcdef], availabilityZones: [eu-central-1a] }';
    const text = SAMPLE.replace(/vpc: .*/, existing);

    expect(refused(text, 'synth')).toEqual([
      expect.objectContaining({
        path: 'aws.vpc.availabilityZones',
        detail: expect.stringContaining('each subnet'),
      }),
    ]);
    expect(
      accepted(text.replace('eu-central-1a]', 'eu-central-1a, eu-central-1b]'), 'synth').aws?.vpc,
    ).toMatchObject({
      id: 'vpc-0123456789abcdef0',
    });
  });
});

describe('the shipped form', () => {
  it('reads back as the same configuration without the aws section', () => {
    const config = accepted(SAMPLE, 'synth');

    const { aws: _, ...expected } = config;
    expect(accepted(shippedConfig(config))).toEqual(expected);
  });

  it('is refused for a key from a file', () => {
    const config = accepted(sampleWith('{ secret: kvm-functions/ssh-key }', '{ file: ./key }'));

    expect(() => shippedConfig(config)).toThrow(/cannot be shipped/);
  });
});

describe('loading', () => {
  it('answers a file that cannot be read with a fault', () => {
    const result = loadConfig('/nonexistent/config.yaml');

    expect(result).toEqual({
      ok: false,
      faults: [{ path: '', line: 1, detail: expect.stringContaining('ENOENT') }],
    });
  });

  it('throws one error with a line for each fault where a configuration is indispensable', () => {
    const load = () =>
      requireConfig('config.yaml', {
        readText: () => sampleWith('fleet: demo', 'fleet: 7').replace('br0', 'a/b'),
      });

    expect(load).toThrow(ConfigError);
    expect(load).toThrow(/^config.yaml:1: fleet: .*\nconfig.yaml:10: hosts\[0\].bridge: /);
  });

  it('formats a fault of the whole file without a path', () => {
    expect(formatFault('c.yaml', { path: '', line: 3, detail: 'is broken' })).toBe('c.yaml:3: is broken');
  });
});
