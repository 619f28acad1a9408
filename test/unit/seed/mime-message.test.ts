import { afterAll, describe, expect, it } from 'vitest';
import { AGENT_COMMAND } from '../../../lib/seed/guest-agent.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { asRecord } from './expected-config.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const prepare = (text: string, vendorData = '') =>
  Buffer.from(prepareUserData(Buffer.from(text), vendorData).userData).toString();

const JINJA = '## template: jinja\n#cloud-config\nhostname: {{ v1.instance_id }}\npackages: [nginx]\n';
const CONDITION =
  "## template: jinja\n#cloud-config\n{% if v1.distro == 'debian' %}\npackages: [nginx]\n{% endif %}\nlocale: C\n";
const MULTIPART =
  'Content-Type: multipart/mixed; boundary="BB"\nMIME-Version: 1.0\n\n--BB\nContent-Type: text/cloud-config\n\n#cloud-config\npackages: [nginx]\n--BB--\n';

describe('user-data that is not merged', () => {
  it.each([
    ['UD-04: a template', JINJA],
    ['UD-04: a template with a condition', CONDITION],
    ['UD-05: a message', MULTIPART],
    [
      'UD-06: an archive',
      '#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [nginx]\n',
    ],
    ['a script', '#!/bin/sh\necho\ttab\n'],
    ['a script without a last line break', '#!/bin/sh\necho'],
    ['a script with “MIME-Version:” near its top', '#!/bin/sh\necho MIME-Version: 1.0 | sendmail -t\n'],
    ['an include', '#include\nhttp://example.test/a\n'],
    ['a boothook', '#cloud-boothook\n#!/bin/sh\necho\n'],
    ['a part handler', '#part-handler\ndef list_types():\n  return ["text/x"]\n'],
    ['a JSON patch', '#cloud-config-jsonp\n[{"op": "add", "path": "/a", "value": 1}]\n'],
  ])('%s stands on the seed byte by byte, in front of the agent’s part', (_name, text) => {
    const prepared = prepare(text);

    expect(prepared).toContain(`\n\n${text}\n--kvmfn-`.replace(/^\n\n(?=Content-Type)/, '\n'));
    expect(prepared.match(/^Merge-Type: /gm)).toHaveLength(1);
    expect(prepare(text)).toBe(prepared);
  });

  it('gives different user-data different boundaries', () => {
    const boundary = (text: string) => /boundary="([^"]*)"/.exec(prepare(text))?.[1];

    expect(boundary('#!/bin/sh\na')).not.toBe(boundary('#!/bin/sh\nb'));
  });

  it.each([
    ['UD-04: ', '##template: jinja\n#cloud-config\n', '## template: jinja'],
    ['', '## template: jinja2\n#cloud-config\n', '## template: jinja'],
    ['', '## template: jinja\nhostname: h\n', 'looks for a header'],
    ['', '#cloud-config-archive\na: b\n', 'is a list of parts'],
    ['', '#cloud-config-archive\n- [a]\n', 'a part of an archive'],
    ['', '#cloud-config-archive\n- "a\n', 'never closed'],
    ['', '#cloud-config-jsonp\n{"a": 1}\n', 'a list'],
    ['', '#cloud-config-jsonp\n[\n', 'a list'],
    ['', '#include\n# nothing\n', 'without a URL'],
    ['UD-05: ', MULTIPART.replace('--BB--\n', ''), 'closing boundary'],
    ['', MULTIPART.replace('; boundary="BB"', ''), 'names the boundary'],
    ['', MULTIPART.replace('boundary="BB"', 'boundary=CC'), 'no line with its boundary'],
    ['', `\n${MULTIPART}`, 'very first character'],
    ['', MULTIPART.replace('nginx', 'nginx # größer'), 'beyond ASCII'],
  ])('%s%j is refused', (_id, text, reason) => {
    expect(() => prepare(text)).toThrow(reason);
  });

  it('takes a message of one part, and a boundary over a folded line', () => {
    expect(prepare('MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n')).toContain(
      '#!/bin/sh',
    );
    expect(prepare(MULTIPART.replace('; boundary="BB"', ';\n\tboundary=BB'))).toContain('boundary=BB');
  });
});

describe.skipIf(!oracleIsInstalled)('cloud-init makes of it', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  const decoded = (part: { payload: string } | undefined) =>
    Buffer.from(part?.payload ?? '', 'base64').toString();

  it.each([
    ['UD-04: a template', JINJA, { hostname: 'i-oracle', packages: ['nginx', 'qemu-guest-agent'] }],
    [
      'UD-04: a template with a condition',
      CONDITION,
      { locale: 'C', packages: ['nginx', 'qemu-guest-agent'] },
    ],
    [
      'a template that begins with a comment',
      '## template: jinja\n{# a note #}\n#cloud-config\nlocale: C\n',
      { locale: 'C', packages: ['qemu-guest-agent'] },
    ],
    ['UD-05: a message', MULTIPART, { packages: ['nginx', 'qemu-guest-agent'] }],
    [
      'UD-06: an archive',
      '#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [nginx]\n- |\n  #cloud-config\n  locale: C\n',
      { packages: ['nginx', 'qemu-guest-agent'], locale: 'C' },
    ],
    [
      'a JSON patch',
      '#cloud-config-jsonp\n[{"op": "add", "path": "/packages", "value": ["nginx"]}]\n',
      { packages: ['nginx', 'qemu-guest-agent'] },
    ],
    [
      'a template beyond ASCII, before which white space stands',
      '\n\n## template: jinja\n#cloud-config\nlocale: größer 你好\n',
      { locale: 'größer 你好', packages: ['qemu-guest-agent'] },
    ],
    [
      'a cloud-config whose lists cannot be added to in place',
      '#cloud-config\np: &p [&a nginx, *a]\npackages: *p\n',
      { p: ['nginx', 'nginx'], packages: ['nginx', 'nginx', 'qemu-guest-agent'] },
    ],
  ])('%s: the user’s lists first, then the agent', async (_name, text, expected) => {
    const { config, warnings } = await oracle.seed(prepare(text));

    expect(asRecord(config)).toEqual({ ...expected, runcmd: [AGENT_COMMAND] });
    expect(warnings).toEqual([]);
  });

  it.each([
    ['text/x-shellscript', '#!/bin/sh\necho "grüße" \'q\'\n'],
    ['text/x-shellscript', '#!/bin/sh\r\necho\r\n'],
    ['text/x-shellscript', '#!/bin/sh\necho\n\n\n'],
    ['text/x-shellscript', '#!/bin/sh\necho MIME-Version: 1.0\nFrom me\n--BB\n.\n'],
    ['text/x-shellscript', `#!/bin/sh\n${'x'.repeat(100_000)}`],
    ['text/x-shellscript', '#!/usr/bin/python3\nprint("\u0001\u000b\u000c\u001c\u0085\u2028")\r'],
    ['text/cloud-boothook', '#cloud-boothook\n#!/bin/sh\necho\n'],
    ['text/part-handler', '#part-handler\n# é\n'],
  ])('%s %j: the same bytes, and the agent', async (type, text) => {
    const { config, parts, warnings } = await oracle.seed(prepare(text));

    expect(parts.map((part) => part.type)).toEqual([type]);
    expect(decoded(parts[0])).toBe(text);
    expect(asRecord(config)).toEqual({ packages: ['qemu-guest-agent'], runcmd: [AGENT_COMMAND] });
    expect(warnings).toEqual([]);
  });

  it('includes: the same addresses', async () => {
    const { parts } = await oracle.seed(prepare('#include\nhttp://example.test/a\nhttp://example.test/b\n'));

    expect(parts.map(decoded)).toEqual(['http://example.test/a', 'http://example.test/b']);
  });

  it('a message of one part, and one with several parts and merge types of their own', async () => {
    const one = await oracle.seed(
      prepare('MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n'),
    );
    const several = await oracle.seed(
      prepare(
        'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="B B"\r\n\r\n--B B\r\nContent-Type: text/cloud-config\r\n\r\n#cloud-config\r\npackages: [a]\r\n\r\n--B B\r\nContent-Type: text/cloud-config\r\nMerge-Type: list(append)+dict(recurse_array)+str()\r\n\r\n#cloud-config\r\npackages: [b]\r\n\r\n--B B\r\nContent-Type: text/x-shellscript\r\nContent-Transfer-Encoding: base64\r\n\r\nIyEvYmluL3NoCg==\r\n--B B--\r\n',
      ),
    );

    expect(decoded(one.parts[0])).toBe('#!/bin/sh\n');
    expect(asRecord(several.config)['packages']).toEqual(['a', 'b', 'qemu-guest-agent']);
    expect(decoded(several.parts[0])).toBe('#!/bin/sh\n');
  });
});
