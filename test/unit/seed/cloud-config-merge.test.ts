import { afterAll, describe, expect, it } from 'vitest';
import { AGENT_COMMAND } from '../../../lib/seed/guest-agent.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { UserDataError } from '../../../lib/seed/user-data-error.ts';
import { asRecord, withAgent } from './expected-config.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const START = `'${AGENT_COMMAND}'`;
const prepare = (text: string, vendorData = '') => {
  const prepared = prepareUserData(Buffer.from(text), vendorData);
  return {
    userData: Buffer.from(prepared.userData).toString(),
    vendorData: Buffer.from(prepared.vendorData).toString(),
  };
};

describe('merging into a cloud-config', () => {
  it('UD-08: appends the agent once and keeps every entry in its order and form', () => {
    const text =
      '#cloud-config\npackages: [open-iscsi, iptables]\nruncmd:\n  - [systemctl, enable, --now, iscsid.service]\n  - echo done\n';

    const { userData } = prepare(text);

    expect(userData).toBe(
      `#cloud-config\npackages: [open-iscsi, iptables, qemu-guest-agent]\nruncmd:\n  - [systemctl, enable, --now, iscsid.service]\n  - echo done\n  - ${START}\n`,
    );
    expect(prepare(userData).userData).toBe(userData);
  });

  it('UD-08: counts the agent’s unit with its suffix as started already', () => {
    const text =
      '#cloud-config\npackages: [qemu-guest-agent]\nruncmd: [[systemctl, enable, --now, qemu-guest-agent.service]]\n';

    expect(prepare(text).userData).toBe(text);
  });

  it('UD-16: installs by `packages` and starts with a command that cannot fail, under either unit name', () => {
    const { userData } = prepare('#cloud-config\nhostname: h\n');

    expect(userData).toContain('packages: [qemu-guest-agent]\n');
    expect(userData).not.toMatch(/apt|dnf|zypper|enable/);
    expect(AGENT_COMMAND).toContain('systemctl start qemu-guest-agent || systemctl start qemu-ga || true');
  });

  it('UD-13: gives an aliased list a copy and leaves the other users of its anchor alone', () => {
    const { userData } = prepare('#cloud-config\np: &p [curl]\npackages: *p\nq: *p\n');

    expect(userData).toMatch(/^p: &p \[curl\]$/m);
    expect(userData).toMatch(/^packages: \["curl", qemu-guest-agent\]$/m);
    expect(userData).toMatch(/^q: \*p$/m);
  });

  it('writes a new key before the end mark of the document', () => {
    expect(prepare('#cloud-config\nhostname: h\n...\n# end\n').userData).toMatch(
      /\nruncmd: .*\n\.\.\.\n# end\n$/,
    );
  });

  it('keeps the line ends of Windows, in its own lines too', () => {
    const { userData } = prepare('#cloud-config\r\npackages:\r\n- a\r\n');

    expect(userData.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/);
  });
});

describe('vendor-data', () => {
  const vendor = '#cloud-config\npackages: [htop]\nntp: {enabled: true}\n';

  it('stays as it is when the user’s document has the lists itself', () => {
    const text = '#cloud-config\npackages: [a]\nruncmd: [b]\n';

    expect(prepare(text, vendor).vendorData).toBe(vendor);
  });

  it('carries the agent in the lists that only it has, so that they are not dropped', () => {
    const prepared = prepare('#cloud-config\nhostname: h\n', vendor);

    expect(prepared.userData).not.toContain('packages');
    expect(prepared.userData).toContain('runcmd');
    expect(prepared.vendorData).toBe(
      '#cloud-config\npackages: [htop, qemu-guest-agent]\nntp: {enabled: true}\n',
    );
  });

  it('leaves no cloud-config without content behind, about which cloud-init warns', () => {
    const prepared = prepare('', '#cloud-config\npackages: [htop]\nruncmd: [echo]\n');

    expect(prepared.userData).toBe('#cloud-config\n{}\n');
  });

  it('lets a script be delivered as it is when it brings both lists', () => {
    const prepared = prepare('#!/bin/sh\necho\n', '#cloud-config\npackages: [htop]\nruncmd: [echo]\n');

    expect(prepared.userData).toBe('#!/bin/sh\necho\n');
    expect(prepared.vendorData).toContain('packages: [htop, qemu-guest-agent]');
  });

  it('is empty for white space', () => {
    expect(prepare('', ' \n ').vendorData).toBe('');
  });

  it.each([
    ['packages: [a]\n', undefined],
    ['#!/bin/sh\n', undefined],
    ['\n\n#cloud-config\na: [\n', 5],
  ])('is refused as the operator’s own fault: %j', (text, line) => {
    expect(() => prepare('', text)).toThrow(UserDataError);
    expect(() => prepare('', text)).toThrow(expect.objectContaining({ document: 'vendor-data' }));
    if (line !== undefined) {
      expect(() => prepare('', text)).toThrow(expect.objectContaining({ line }));
    }
  });
});

describe.skipIf(!oracleIsInstalled)('values that two YAML versions read differently, asked of PyYAML', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  const unchanged = async (body: string) => {
    const text = `#cloud-config\n${body}`;
    const before = await oracle.yaml(text);
    const after = await oracle.seed(prepare(text).userData);

    expect(before).toHaveProperty('value');
    expect(asRecord(after.config)).toEqual(withAgent('value' in before ? before.value : null));
    return asRecord(after.config);
  };

  it('UD-09: keeps YAML 1.1 booleans and the strings that look like them', async () => {
    const config = await unchanged(
      'write_files: [{path: /etc/flag, content: "yes"}]\nssh_pwauth: no\non: 1\ny: 2\n',
    );

    expect(config['write_files']).toEqual([
      {
        dict: [
          ['path', '/etc/flag'],
          ['content', 'yes'],
        ],
      },
    ]);
    expect(config['ssh_pwauth']).toEqual({ bool: false });
  });

  it('UD-10: keeps a MAC address and a port pair as strings', async () => {
    const config = await unchanged(
      'bootcmd:\n  - [/opt/nic, "12:40:37:27:57:41"]\n  - [/opt/map, "22:22"]\n',
    );

    expect(config['bootcmd']).toEqual([
      ['/opt/nic', '12:40:37:27:57:41'],
      ['/opt/map', '22:22'],
    ]);
  });

  it('UD-11: keeps octal file modes in each spelling', async () => {
    const config = await unchanged(
      "write_files:\n- {path: /a, permissions: 0644}\n- {path: /b, permissions: '0600'}\n- {path: /c, permissions: 0o640}\n",
    );

    expect(JSON.stringify(config['write_files'])).toContain('["permissions",{"int":"0x1a4"}]');
  });

  it('UD-13: keeps merge keys, two of them in one mapping, and binary values', async () => {
    await unchanged('x: &b {shell: /bin/bash}\nusers:\n- {<<: *b, name: t1}\n');
    await unchanged('a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b\n');
    await unchanged('p: &p [curl]\npackages: *p\n');
    await unchanged('write_files: [{path: /b, content: !!binary aGVsbG8=}]\n');
  });

  it('UD-19: folds no long line', async () => {
    await unchanged(`write_files: [{path: /x, content: "${'z'.repeat(81)}\\n test  \\n\\n"}]\n`);
  });

  it('keeps a block scalar that ends with the text without a final line break', async () => {
    const config = await unchanged('text: |\n  one\n  two');

    expect(config['text']).toBe('one\ntwo');
  });

  it('keeps what a vendor’s list brings when the user has none of that name', async () => {
    const vendor = '#cloud-config\npackages: [htop]\nruncmd: [[echo, vendor]]\nlocale: C\n';
    const prepared = prepare('#cloud-config\nruncmd: [echo user]\nlocale: de_DE\n', vendor);

    const { effective, warnings } = await oracle.seed(prepared.userData, prepared.vendorData);

    expect(asRecord(effective)).toEqual({
      runcmd: ['echo user', AGENT_COMMAND],
      locale: 'de_DE',
      packages: ['htop', 'qemu-guest-agent'],
    });
    expect(warnings).toEqual([]);
  });
});
