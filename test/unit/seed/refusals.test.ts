import { afterAll, describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { UserDataError } from '../../../lib/seed/user-data-error.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

interface Refusal {
  readonly name: string;
  readonly body: string;
  readonly line: number;
  readonly column: number;
  /** What PyYAML accepts and cloud-init's module, or nobody who reads the document, does. */
  readonly accepted?: true;
}

/** Bodies below `#cloud-config`, so that the first line counts as 2. */
const REFUSED: readonly Refusal[] = [
  { name: 'a tab as indentation', body: 'a:\n\tb: c\n', line: 3, column: 1 },
  { name: 'a tab before a value', body: 'a:\tb\n', line: 2, column: 3 },
  { name: 'a tab behind a value', body: 'a: b\t# c\n', line: 2, column: 5 },
  { name: 'a tab inside a plain value', body: 'a: b \tc\n', line: 2, column: 6 },
  { name: 'a tab in a blank line', body: 'a: b\n\t\nc: d\n', line: 3, column: 1 },
  { name: 'a tab before the text of a block', body: 'a: |\n\tb\n', line: 3, column: 1 },
  { name: 'a control character', body: 'a: "x\u0007y"\n', line: 2, column: 6 },
  { name: 'a control character in a comment', body: 'a: b\n# \u001b[0m\n', line: 3, column: 3 },
  { name: 'a delete character', body: 'a: \u007f\n', line: 2, column: 4 },
  { name: 'a NUL', body: 'a: \0\n', line: 2, column: 4 },
  { name: 'a lone U+FFFE', body: 'a: \uFFFE\n', line: 2, column: 4 },
  { name: 'a quote that never ends', body: 'a: "b\nc: d\n', line: 2, column: 4 },
  { name: 'a single quote that never ends', body: "a: '''\n", line: 2, column: 4 },
  { name: 'a quote that ends escaped', body: 'a: "b\\"\n', line: 2, column: 4 },
  { name: 'a bracket that never ends', body: 'a: [b, c\nd: e\n', line: 2, column: 8 },
  { name: 'a wrong indentation', body: 'a:\n    b: 1\n  c: 2\n', line: 4, column: 1 },
  { name: 'a colon too many', body: 'a: b: c\n', line: 2, column: 4 },
  { name: 'a plain value that begins with a percent sign', body: 'a: %x\n', line: 2, column: 4 },
  { name: 'a plain value that begins with an at sign', body: 'a: @x\n', line: 2, column: 4 },
  { name: 'an escape that is none', body: 'a: "\\d"\n', line: 2, column: 5 },
  { name: 'a second document', body: 'a: b\n---\nc: d\n', line: 3, column: 1 },
  { name: 'an empty second document', body: 'a: b\n---\n', line: 3, column: 1 },
  { name: 'YAML 2', body: '%YAML 2.0\n---\na: b\n', line: 2, column: 1 },
  { name: 'an unknown alias', body: 'a: *b\n', line: 2, column: 4 },
  { name: 'an alias before its anchor', body: 'a: *b\nc: &b d\n', line: 2, column: 4 },
  { name: 'an anchor twice', body: 'a: &x 1\nb: &x 2\n', line: 3, column: 7 },
  { name: 'an anchor with a dot', body: 'a: &x.y 1\n', line: 2, column: 4 },
  {
    name: 'an alias of a merge key',
    body: 'a: {&m <<: {b: c}}\n*m : {packages: [x]}\n',
    line: 3,
    column: 1,
    accepted: true,
  },
  { name: 'an alias inside its own value', body: 'a: &x [*x]\n', line: 2, column: 8 },
  { name: 'an unknown tag', body: 'a: !thing b\n', line: 2, column: 11 },
  { name: 'a tag of Python', body: 'a: !!python/object:os.system {}\n', line: 2, column: 30 },
  { name: 'a tag on the wrong kind', body: 'a: !!str [b]\n', line: 2, column: 10 },
  { name: 'no number behind !!int', body: 'a: !!int b\n', line: 2, column: 10 },
  { name: 'an octal number with a colon', body: 'a: !!int 0:1\n', line: 2, column: 10 },
  { name: 'a hexadecimal number with a large X', body: 'a: !!int 0X1\n', line: 2, column: 10 },
  { name: 'a longer decimal number than Python reads', body: `a: ${'9'.repeat(4301)}\n`, line: 2, column: 4 },
  {
    name: 'a longer hexadecimal number than Python writes',
    body: `a: 0x${'f'.repeat(4000)}\n`,
    line: 2,
    column: 4,
    accepted: true,
  },
  {
    name: 'a longer number to the base of 60 than Python writes',
    body: `a: 1${':59'.repeat(3000)}\n`,
    line: 2,
    column: 4,
    accepted: true,
  },
  { name: 'no boolean behind !!bool', body: 'a: !!bool b\n', line: 2, column: 11 },
  { name: 'no base64 behind !!binary', body: 'a: !!binary abc\n', line: 2, column: 13 },
  { name: 'a date that does not exist', body: 'a: 2024-02-30\n', line: 2, column: 4 },
  { name: 'a time that does not exist', body: 'a: 2024-02-03 25:00:00\n', line: 2, column: 4 },
  { name: 'a hexadecimal number without a digit', body: 'a: 0x_\n', line: 2, column: 4 },
  { name: 'a lone equals sign', body: 'a: =\n', line: 2, column: 4 },
  { name: 'a merge sign as a value', body: 'a: <<\n', line: 2, column: 4 },
  { name: 'a merge key on a text', body: 'a: &a text\nb: {<<: *a}\n', line: 3, column: 5 },
  { name: 'a template without its header', body: 'hostname: {{ v1.instance_id }}\n', line: 2, column: 12 },
  { name: 'a list as a key', body: '[a, b]: c\n', line: 2, column: 1 },
  { name: 'a colon without a key', body: 'a: b\n: c\n', line: 3, column: 1 },
  { name: 'a key over two lines in braces', body: 'a: {b\n  c: d}\n', line: 2, column: 5 },
  { name: 'a question mark in a bare URL in brackets', body: 'a: [http://b/?c=d]\n', line: 2, column: 14 },
  { name: 'a list at the top', body: '- a\n- b\n', line: 2, column: 1 },
  { name: 'a text at the top', body: 'just a text\n', line: 2, column: 1 },
  {
    name: 'UD-14: a key that stands twice',
    body: 'runcmd: [a]\nhostname: h\nruncmd: [b]\n',
    line: 4,
    column: 1,
    accepted: true,
  },
  {
    name: 'UD-14: a key that stands twice further in',
    body: 'a:\n  b: 1\n  b: 2\n',
    line: 4,
    column: 3,
    accepted: true,
  },
  {
    name: 'UD-14: a number that stands twice in two spellings',
    body: '1: a\n0x1: b\n',
    line: 3,
    column: 1,
    accepted: true,
  },
  { name: 'packages that are a text', body: 'packages: curl\n', line: 2, column: 11, accepted: true },
  {
    name: 'packages that are a mapping',
    body: 'packages:\n  curl: true\n',
    line: 3,
    column: 3,
    accepted: true,
  },
  {
    name: 'a package that is a number',
    body: 'packages:\n- a\n- 1.10\n',
    line: 4,
    column: 3,
    accepted: true,
  },
  { name: 'an empty package', body: 'packages:\n- a\n-\n', line: 4, column: 2, accepted: true },
  {
    name: 'a package with too many versions',
    body: 'packages: [[a, b, c]]\n',
    line: 2,
    column: 12,
    accepted: true,
  },
  { name: 'runcmd that is a text', body: 'runcmd: |\n  echo\n', line: 2, column: 9, accepted: true },
  {
    name: 'a command with a colon that is a mapping',
    body: 'runcmd:\n- echo a: b\n',
    line: 3,
    column: 3,
    accepted: true,
  },
  { name: 'a command that is a number', body: 'runcmd: [1]\n', line: 2, column: 10, accepted: true },
  { name: 'a command of lists', body: 'runcmd: [[sh, [a]]]\n', line: 2, column: 10, accepted: true },
];

const prepare = (text: string) => prepareUserData(Buffer.from(text), '');

function refusalOf(text: string): UserDataError {
  try {
    prepare(text);
  } catch (error) {
    if (error instanceof UserDataError) {
      return error;
    }
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a cloud-config is refused for', () => {
  it.each(REFUSED)('$name, with its place', ({ body, line, column }) => {
    const refusal = refusalOf(`#cloud-config\n${body}`);

    expect({ line: refusal.line, column: refusal.column }).toEqual({ line, column });
    expect(refusal.message).toBe(`user-data: line ${line}, column ${column}: ${refusal.detail}`);
  });

  it('nesting that would exhaust the guest’s parser, and does not exhaust this one', () => {
    expect(refusalOf(`#cloud-config\na: ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`).detail).toContain(
      'deeper',
    );
    expect(refusalOf(`#cloud-config\na: ${'- '.repeat(20_000)}\n`)).toBeInstanceOf(UserDataError);
  });

  it('“MIME-Version:” near its top, where the line is', () => {
    const refusal = refusalOf('\n#cloud-config\nwrite_files:\n- content: |\n    Mime-Version: 1.0\n');

    expect(refusal).toMatchObject({ line: 5, column: 5 });
    expect(() => prepare(`#cloud-config\n#${'x'.repeat(4096)}\n# MIME-Version: 1.0\n`)).not.toThrow();
  });

  it('a fault below leading lines with the line in the whole', () => {
    expect(refusalOf('\n\n#cloud-config\na: [\n')).toMatchObject({ line: 5 });
  });

  it('UD-14: a double key by its name and both lines', () => {
    expect(refusalOf('#cloud-config\nruncmd: [a]\nhostname: h\nruncmd: [b]\n').detail).toMatch(
      /“runcmd”.*line 2/,
    );
  });

  it('any reason without quoting a value', () => {
    const secret = 'hunter2';
    const texts = [
      `a: "${secret}\n`,
      `a: {${secret}: [}\n`,
      `a: *${secret}\n`,
      `a: !${secret} b\n`,
      `- ${secret}\n`,
      `runcmd: ${secret}\n`,
      `a: ${secret}\tb\n`,
    ];
    for (const text of texts) {
      const refusal = refusalOf(`#cloud-config\n${text}`);

      expect(refusal.message).not.toContain(secret);
      expect(refusal.cause).toBeUndefined();
    }
  });
});

describe.skipIf(!oracleIsInstalled)('PyYAML agrees about', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  it.each(REFUSED)('$name', async ({ body, accepted }) => {
    const reading = await oracle.yaml(`#cloud-config\n${body}`);

    const isMapping = 'value' in reading && JSON.stringify(reading.value).startsWith('{"dict"');
    expect(isMapping).toBe(accepted ?? false);
  });
});

describe('a text with more entries than a configuration has', () => {
  it.each([
    ['list items', 'a:\n'.concat('- x\n'.repeat(50_000))],
    ['flow entries', 'a: ['.concat('b: c,'.repeat(50_000), ']')],
    ['anchors', Array.from({ length: 40_000 }, (_, n) => `k${n}: &a${n} 1\n`).join('')],
    ['nested lists', '- '.repeat(400_000)],
    ['nested keys', 'a: '.repeat(300_000)],
    ['comments', '#\n'.repeat(500_000)],
  ])('is refused before it is parsed: %s', (_, text) => {
    expect(() => prepareUserData(Buffer.from(`#cloud-config\n${text}`), '')).toThrow(
      /more than 30000 lines and entries/,
    );
  });

  it('is not one with few long values', () => {
    const text = `#cloud-config\nwrite_files:\n- content: |\n${'    a line of a large file\n'.repeat(20_000)}`;

    expect(prepareUserData(Buffer.from(text), '').kind).toBe('cloud-config');
  });

  it('as long as it may be is read without overflowing the stack', () => {
    const text = `#cloud-config\na: [${'b,'.repeat(29_000)}]\n`;

    expect(prepareUserData(Buffer.from(text), '').kind).toBe('cloud-config');
  });
});
