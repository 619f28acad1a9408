import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { checkNothingRunsAtEachBoot, EACH_BOOT_KEYS } from '../../../lib/seed/each-boot.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const check = (text: string) => () => checkNothingRunsAtEachBoot(Buffer.from(text));

const mime = (...parts: readonly string[]): string =>
  [
    'Content-Type: multipart/mixed; boundary="BB"',
    'MIME-Version: 1.0',
    '',
    ...parts.flatMap((part) => ['--BB', part]),
    '--BB--',
    '',
  ].join('\n');

/** The names of the scripts in the guest's folder for every boot: after a boot with one in its user-data, and after one without. */
const TWO_BOOTS = String.raw`
import logging, os, tempfile
logging.disable(logging.CRITICAL)
from cloudinit import handlers, helpers, user_data
from cloudinit.handlers.shell_script_by_frequency import ShellScriptByFreqPartHandler
from cloudinit.settings import PER_ALWAYS, PER_INSTANCE
user_data.util.fetch_ssl_details = lambda paths: {}
with tempfile.TemporaryDirectory() as folder:
    paths = helpers.Paths({"cloud_dir": folder, "run_dir": folder})
    handler = ShellScriptByFreqPartHandler(PER_ALWAYS, paths)
    def boot(data, frequency):
        message = user_data.UserDataProcessor(paths).process(data)
        context = {"handlers": {"text/x-shellscript-per-boot": handler}, "excluded": [], "handlerdir": folder}
        handlers.walk(message, handlers.walker_callback, {**context, "data": None, "frequency": frequency, "handlercount": 0})
        return os.listdir(os.path.join(folder, "scripts", "per-boot"))
    script = b"MIME-Version: 1.0\nContent-Type: text/x-shellscript-per-boot\nContent-Disposition: attachment; filename=hi.sh\n\n#!/bin/sh\n"
    print(boot(script, PER_INSTANCE), boot(b"#cloud-config\n{}\n", PER_ALWAYS))
`;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('user-data that the guest needs once', () => {
  it.each([
    ['nothing', ''],
    ['a cloud-config', '#cloud-config\npackages: [nginx]\nruncmd: [[echo, bootcmd]]\nusers: [default]\n'],
    ['a key of another level', '#cloud-config\nwrite_files: [{ path: /a, bootcmd: 1 }]\n'],
    ['a script', '#!/bin/sh\necho #cloud-boothook\n'],
    [
      'a MIME message',
      mime(
        'Content-Type: text/cloud-config\n\n#cloud-config\nruncmd: [a]',
        'Content-Type: text/x-shellscript\n\n#!/bin/sh\n',
      ),
    ],
    ['a script for each instance', mime('Content-Type: text/x-shellscript-per-instance\n\n#!/bin/sh\n')],
    ['a plain part that cloud-init leaves alone', mime('Content-Type: text/plain\n\nbootcmd: [a]\n')],
    [
      'an archive',
      '#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [a]\n- "#!/bin/sh"\n',
    ],
  ])('%s is let through', (_, text) => {
    expect(check(text)).not.toThrow();
  });
});

describe('user-data that runs at every boot', () => {
  it('is refused by the name of the key and its place', () => {
    expect(check('\n#cloud-config\npackages: [a]\nbootcmd: [[echo, hunter2]]\n')).toThrow(
      'user-data: line 4, column 1: bootcmd: cloud-init takes it from the seed at every boot, and seed.scrub would take ' +
        'it away after the first',
    );
    expect(check('#cloud-config\nbootcmd: [[echo, hunter2]]\n')).not.toThrow(/hunter2/);
  });

  it.each([...EACH_BOOT_KEYS])('%s is refused', (key) => {
    expect(check(`#cloud-config\n${key}: a\n`)).toThrow(`${key}: cloud-init takes it`);
  });

  it.each([
    ['a merge key', '#cloud-config\nx: &x { bootcmd: [a] }\n<<: *x\n'],
    ['a list of merge keys', '#cloud-config\nx: &x { a: b }\ny: &y { bootcmd: [a] }\n<<: [*x, *y]\n'],
    ['an alias as the key', '#cloud-config\nx: &x bootcmd\n*x : [a]\n'],
    ['a quoted key', '#cloud-config\n"bootcmd": [a]\n'],
    ['a module of another frequency', '#cloud-config\ncloud_final_modules: [[scripts-user, always]]\n'],
  ])('is found behind %s', (_, text) => {
    expect(check(text)).toThrow(/cloud-init takes it from the seed at every boot/);
  });

  it.each([
    ['a boothook', '#cloud-boothook\n#!/bin/sh\n'],
    ['a boothook part', mime('Content-Type: text/cloud-boothook\n\n#!/bin/sh\n')],
    ['a cloud-config part', mime('Content-Type: text/cloud-config\n\nbootcmd: [a]\n')],
    [
      'a part in base64',
      mime(
        `Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64\n\n${base64('#cloud-config\nbootcmd: [a]\n')}`,
      ),
    ],
    [
      'a quoted-printable part',
      mime(
        'Content-Type: text/cloud-config\nContent-Transfer-Encoding: quoted-printable\n\n#cloud-config\nboot=\ncmd: [a]',
      ),
    ],
    ['a part without a type', mime('\n#cloud-boothook\necho\n')],
    ['a script part that is none', mime('Content-Type: text/x-shellscript\n\n#cloud-config\nbootcmd: [a]\n')],
    [
      'a part of an inner message',
      mime(
        'Content-Type: multipart/mixed; boundary=CC\n\n--CC\nContent-Type: text/cloud-boothook\n\n#!\n--CC--',
      ),
    ],
    [
      'an entry of an archive',
      '#cloud-config-archive\n- type: text/cloud-boothook\n  content: "#!/bin/sh"\n',
    ],
    ['an entry of an archive without a type', '#cloud-config-archive\n- content: "bootcmd: [a]"\n'],
    ['a text in an archive', '#cloud-config-archive\n- "#cloud-boothook\\n#!/bin/sh"\n'],
  ])('is found in %s', (_, text) => {
    expect(check(text)).toThrow(/cloud-init takes it from the seed at every boot/);
  });
});

describe('a script that the guest keeps for every boot', () => {
  it('is refused, since scrubbing the seed would not take it away', () => {
    expect(check(mime('Content-Type: text/x-shellscript-per-boot\n\n#!/bin/sh\n'))).toThrow(
      'user-data: part 1: a per-boot script: the guest keeps it on its disk and runs it at every boot, so seed.scrub would ' +
        'not take it away',
    );
  });

  it.skipIf(!oracleIsInstalled)('is there at the second boot, when its seed is scrubbed', () => {
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', TWO_BOOTS], { encoding: 'utf8' });

    expect(stdout, stderr).toBe("['hi.sh'] ['hi.sh']\n");
  });
});

describe('user-data of many parts', () => {
  const parts = (count: number, part: (index: number) => string) =>
    mime(...Array.from({ length: count }, (_, index) => part(index)));
  const cloudConfig = (entries: number) => (index: number) =>
    `Content-Type: text/cloud-config\n\nk${index}: [${'a,'.repeat(entries)}]`;
  const nested = (depth: number) =>
    Array.from({ length: depth }).reduce<string>(
      (inner, _, level) =>
        `Content-Type: multipart/mixed; boundary=b${level}x\n\n--b${level}x\n${inner}\n--b${level}x--\n`,
      'Content-Type: text/x-shellscript\n\n#!/bin/sh\n',
    );
  const archive = (count: number) =>
    `#cloud-config-archive\n${Array.from({ length: count }, (_, index) => `- "#!/bin/sh ${index}"\n`).join('')}`;

  it.each([
    ['a thousand parts', parts(1000, (index) => `\n#!/bin/sh ${index}\n`)],
    ['a thousand texts in an archive', archive(1000)],
    ['29,000 entries in all', parts(10, cloudConfig(2900))],
    ['five messages in one another', `MIME-Version: 1.0\n${nested(5)}`],
  ])('%s are let through', (_, text) => {
    expect(check(text)).not.toThrow();
  });

  it.each([
    [
      'a thousand parts and one',
      parts(1001, (index) => `\n#!/bin/sh ${index}\n`),
      /^user-data: more than 1000 parts/,
    ],
    [
      'a thousand parts and one in several messages',
      parts(2, () => parts(500, () => '\n#!/bin/sh\n').replace(/BB/g, 'CC')),
      /^user-data: more than 1000 parts/,
    ],
    ['a thousand texts and one in an archive', archive(1001), /^user-data: part 1001: more than 1000 parts/],
    [
      '31,000 entries in all',
      parts(10, cloudConfig(3100)),
      /^user-data: part 10: more than 30000 lines and entries in all/,
    ],
    [
      '31,000 merged entries in all',
      parts(
        10,
        (index) =>
          `Content-Type: text/cloud-config\n\na: &a {${Array.from({ length: 99 }, (_, n) => `k${n}: ${index}`).join(',')}}\nb: {<<: [${'*a,'.repeat(31)}]}`,
      ),
      /^user-data: part 10: merge keys << that bring more than 30000 entries/,
    ],
    ['six messages in one another', `MIME-Version: 1.0\n${nested(6)}`, /messages nested too deep/],
    [
      'an archive in an archive',
      '#cloud-config-archive\n- |\n  #cloud-config-archive\n  - "#!/bin/sh"\n',
      'user-data: part 1: an archive inside an archive: cloud-init ignores it',
    ],
    [
      'an archive in an archive, by its type',
      '#cloud-config-archive\n- {type: text/cloud-config-archive, content: "[a]"}\n',
      'user-data: part 1: an archive inside an archive: cloud-init ignores it',
    ],
  ])('%s are refused', (_, text, reason) => {
    expect(check(text)).toThrow(reason);
  });

  it.skipIf(!oracleIsInstalled)('is not taken apart where an archive is in an archive', async () => {
    const oracle = new Oracle();
    const { parts: found, config } = await oracle.seed(
      '#cloud-config-archive\n- |\n  #cloud-config-archive\n  - "#cloud-boothook\\n"\n  - "bootcmd: [a]"\n',
    );
    oracle.close();

    expect(found).toEqual([]);
    expect(JSON.stringify(config)).not.toContain('bootcmd');
  });
});

describe('user-data of which only the guest knows what it is', () => {
  it.each([
    ['an include', '#include\nhttps://example.com/a\n'],
    ['an include once', '#include-once\nhttps://example.com/a\n'],
    ['a template', '## template: jinja\n#cloud-config\nhostname: {{ v1.instance_id }}\n'],
    ['a JSON patch', '#cloud-config-jsonp\n[{ "op": "add", "path": "/bootcmd", "value": [] }]\n'],
    ['a part-handler', '#part-handler\ndef list_types(): return []\n'],
    ['an include part', mime('Content-Type: text/x-include-url\n\nhttps://example.com/a\n')],
    ['a compressed part', mime('Content-Type: application/gzip\n\nH4s\n')],
    [
      'an encoding of its own',
      mime('Content-Type: text/cloud-config\nContent-Transfer-Encoding: x-uuencode\n\na\n'),
    ],
    ['an unknown type', mime('Content-Type: text/x-mine\n\na\n')],
    [
      'an entry with a merge key',
      '#cloud-config-archive\n- &x { type: text/cloud-boothook, content: a }\n- { <<: *x }\n',
    ],
  ])('%s is refused for that', (_, text) => {
    expect(check(text)).toThrow(/known only in the guest|takes it from the seed/);
  });
});

/**
 * Keys of the whole configuration that cloud-init reads at every boot, by its own source: its modules of frequency `always`,
 * and what runs before and around them.
 */
const READ_BY_CLOUD_INIT = String.raw`
import glob, importlib, inspect, os, re, cloudinit.config
patterns = [
    r'get_cfg_option_\w+\(\s*(?:\w+\.)?cfg,\s*"(\w+)"',
    r'\bcfg\.get\(\s*"(\w+)"',
    r'\bcfg\["(\w+)"\]',
    r'"(\w+)" (?:not )?in cfg\b',
    r'get_cfg_by_path\(\s*\w*cfg,\s*\("(\w+)"',
]
for name in ("cmd.main", "config.modules", "stages", "warnings"):
    source = inspect.getsource(importlib.import_module("cloudinit." + name))
    for pattern in patterns:
        for key in re.findall(pattern, source):
            print(name, key)
for path in sorted(glob.glob(os.path.dirname(cloudinit.config.__file__) + "/cc_*.py")):
    name = os.path.basename(path)[:-3]
    module = importlib.import_module("cloudinit.config." + name)
    if getattr(module, "meta", {}).get("frequency") != "always":
        continue
    source = inspect.getsource(module)
    for pattern in patterns:
        for key in re.findall(pattern, source):
            print(name, key)
`;

describe.skipIf(!oracleIsInstalled)('the list of keys', () => {
  it('has what the installed cloud-init reads at every boot', () => {
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', READ_BY_CLOUD_INIT], {
      encoding: 'utf8',
    });
    const read = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' '));

    expect(read.length, stderr).toBeGreaterThan(25);
    expect(read).toContainEqual(['cmd.main', 'di_report']);
    expect(read).toContainEqual(['config.modules', 'unverified_modules']);
    expect(read).toContainEqual(['warnings', 'warnings']);
    expect(read.filter(([, key = '']) => !EACH_BOOT_KEYS.has(key))).toEqual([]);
  });
});
