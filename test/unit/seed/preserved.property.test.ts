/**
 * The promise as a property: whatever document PyYAML reads, the guest reads the same with the agent added; and
 * whatever PyYAML refuses is refused. Documents are generated, and the corpus is damaged at random places.
 */
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { UserDataError } from '../../../lib/seed/user-data-error.ts';
import { readCorpus } from './corpus.ts';
import { asRecord, withAgent } from './expected-config.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const SEED = 20_260_131;

const plain = fc.constantFrom(
  ...[
    'yes',
    'No',
    'on',
    'y',
    '~',
    'null',
    '0644',
    '0o17',
    '0x1F',
    '1_000',
    '12:30:45',
    '22:22',
    '1e3',
    '1.5e+3',
  ],
  ...[
    '.5',
    '1.',
    '.inf',
    '2024-01-31',
    '61e9540',
    'a b',
    'a#b',
    'a:b',
    'http://x/y',
    '-x',
    'x-',
    'é',
    '😀',
    '"q" b',
  ].map((text) => (text.startsWith('"') ? `'${text}'` : text)),
);
const quoted = fc
  .string({ unit: 'binary', maxLength: 12 })
  .map((text) =>
    JSON.stringify(text.toWellFormed()).replaceAll(
      /[\u007f-\u{10ffff}]/gu,
      (c) => `\\U${(c.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
    ),
  );
const single = fc
  .string({ unit: 'grapheme-ascii', maxLength: 12 })
  .map((text) => `'${text.replaceAll("'", "''")}'`);
const scalar = fc.oneof(plain, quoted, single);
const comment = fc.constantFrom('', '', ' # note', '  # a: [b');

/** One value in flow style. */
const { flow } = fc.letrec<{ flow: string }>((tie) => ({
  flow: fc.oneof(
    { depthSize: 'small' },
    scalar,
    fc.array(tie('flow'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
    fc
      .array(tie('flow'), { maxLength: 3 })
      .map((items) => `{${items.map((item, i) => `k${i}: ${item}`).join(', ')}}`),
  ),
}));

const blockText = fc
  .tuple(
    fc.constantFrom('|', '>', '|-', '>+', '|+', '|2'),
    fc.array(fc.constantFrom('one', '  two', '# three', 'a: b', '', '- x'), { minLength: 1, maxLength: 4 }),
  )
  .map(
    ([header, lines]) =>
      `${header}\n${['first', ...lines].map((line) => (line === '' ? '' : `  ${line}`)).join('\n')}`,
  );

const entry = fc
  .tuple(fc.oneof(flow, blockText), comment)
  .map(([value, note]) => (value.includes('\n') ? value : value + note));

const command = fc.oneof(
  single,
  quoted,
  fc.array(scalar, { maxLength: 3 }).map((words) => `[${words.join(', ')}]`),
);
const packageName = fc.oneof(single, fc.constantFrom('curl', 'git', "[nginx, '1.0']"));

/** A list under its key in one of the forms a user writes. */
const list = (key: string, item: fc.Arbitrary<string>) =>
  fc
    .tuple(fc.array(item, { maxLength: 3 }), fc.constantFrom('flow', 'lines', 'block', 'indented'), comment)
    .map(([items, form, note]) => {
      if (form === 'flow' || items.length === 0) return `${key}: [${items.join(', ')}]${note}`;
      if (form === 'lines') return `${key}: [\n${items.map((each) => `  ${each},${note}`).join('\n')}\n]`;
      const indent = form === 'block' ? '' : '  ';
      return `${key}:${note}\n${items.map((each) => `${indent}- ${each}${note}`).join('\n')}`;
    });

const document = fc
  .record({
    others: fc.array(entry, { maxLength: 4 }),
    packages: fc.option(list('packages', packageName)),
    runcmd: fc.option(list('runcmd', command)),
    order: fc.nat(5),
    gap: fc.constantFrom('\n', '\n\n', '\n# between\n'),
    start: fc.constantFrom('', '---\n', '# top\n'),
    end: fc.constantFrom('', '\n', '\n\n', '\n...\n', '\n# end'),
    newline: fc.constantFrom('\n', '\n', '\r\n'),
  })
  .map(({ others, packages, runcmd, order, gap, start, end, newline }) => {
    const parts = others.map((value, index) => `key${index}: ${value}`);
    for (const part of [packages, runcmd]) {
      if (part !== null) parts.splice(order % (parts.length + 1), 0, part);
    }
    return `#cloud-config\n${start}${parts.join(gap)}${end}`.replaceAll('\n', newline);
  });

const damage = fc.record({
  at: fc.nat(),
  remove: fc.nat({ max: 3 }),
  insert: fc.constantFrom(
    ...[
      '',
      '\n',
      '\t',
      ' ',
      '  ',
      ':',
      ': ',
      '- ',
      '? ',
      '#',
      ' #',
      '&a ',
      '*a',
      '!',
      '!!str ',
      '!!int ',
      '|',
      '>',
      '|+',
      '"',
      "'",
    ],
    ...[
      ',',
      '[',
      ']',
      '{',
      '}',
      '<<: ',
      '=',
      '%',
      '@',
      '\\',
      '\r',
      '\u2028',
      '\x85',
      '\x07',
      '\n---\n',
      '\n...\n',
      '\nk: v',
      '\n- ',
      '2024-13-01',
      '0x_',
      '\uFEFF',
    ],
  ),
});

const damaged = fc
  .tuple(
    fc.constantFrom(...readCorpus().map(({ text }) => text)),
    fc.array(damage, { minLength: 1, maxLength: 3 }),
  )
  .map(([text, damages]) =>
    damages.reduce((result, { at, remove, insert }) => {
      const place = '#cloud-config\n'.length + (at % Math.max(1, result.length - '#cloud-config\n'.length));
      return result.slice(0, place) + insert + result.slice(place + remove);
    }, text),
  );

describe.skipIf(!oracleIsInstalled)('through the eyes of PyYAML', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  /** @returns whether the document was taken */
  async function check(text: string): Promise<boolean> {
    const before = await oracle.yaml(text.replace(/^\uFEFF/, '').trimStart());
    let prepared: Uint8Array;
    try {
      prepared = prepareUserData(Buffer.from(text), '').userData;
    } catch (error) {
      expect(error).toBeInstanceOf(UserDataError);
      return false;
    }

    const after = await oracle.seed(prepared);

    expect(before).not.toHaveProperty('error');
    const value = 'value' in before ? before.value : null;
    const present = {
      packages: /qemu-guest-agent/.test(text),
      runcmd: /(?:start|--now).{0,5}qemu-guest-agent/.test(text),
    };
    const expected = withAgent(value, present);
    const actual = asRecord(after.config);
    if (present.packages || present.runcmd) {
      // Damage may have made the user's own agent entry something else: then there are two, and nothing is lost.
      expect(JSON.stringify(actual)).toContain('qemu-guest-agent');
    } else {
      expect(actual).toEqual(expected);
    }
    expect(after.warnings).toEqual([]);
    return true;
  }

  it('every generated document arrives unchanged', async () => {
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(document, async (text) => {
        taken += (await check(text)) ? 1 : 0;
      }),
      { seed: SEED, numRuns: 400 },
    );

    expect(taken).toBeGreaterThan(300);
  });

  it('every damaged document arrives unchanged or is refused, and none is taken that PyYAML refuses', async () => {
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(damaged, async (text) => {
        taken += (await check(text)) ? 1 : 0;
      }),
      { seed: SEED, numRuns: 1500 },
    );

    expect(taken).toBeGreaterThan(300);
  });
});
