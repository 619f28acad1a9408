/**
 * Parts that run at every boot, hidden where two readers of one message disagree. With seed.scrub such a part would be
 * lost after the first boot, so what is let through must bring none, by the guest's own reading.
 */
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { checkNothingRunsAtEachBoot } from '../../../lib/seed/each-boot.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { UserDataError } from '../../../lib/seed/user-data-error.ts';
import { Oracle, oracleIsInstalled, type SeedReading } from './oracle.ts';

const HOOK = '#cloud-boothook\n#!/bin/sh\ntrue\n';
const SCRIPT = '#!/bin/sh\ntrue\n';
const base64 = (text: string) => Buffer.from(text).toString('base64');

const message = (...parts: readonly string[]) =>
  `Content-Type: multipart/mixed; boundary="b"\nMIME-Version: 1.0\n\n${parts.map((part) => `--b\n${part}\n`).join('')}--b--\n`;
const part = (type: string, content: string, more = '') => `Content-Type: ${type}\n${more}\n${content}`;
const encoded = (encoding: string, content: string) =>
  message(part('text/plain', content, `Content-Transfer-Encoding: ${encoding}\n`));
const twoMessages = (parameters: string) =>
  `Content-Type: multipart/mixed; ${parameters}\nMIME-Version: 1.0\n\n--b\n${part('text/cloud-boothook', HOOK)}\n--b--\n--fake\n${part('text/x-shellscript', SCRIPT)}\n--fake--\n`;
const once = 'Content-Type: text/x-shellscript-per-instance';

const HIDDEN: readonly (readonly [string, string])[] = [
  ['a second content-type', message(`Content-Type: text/cloud-boothook\n${once}\n\n${HOOK}`)],
  [
    'a second content-type of the whole',
    `MIME-Version: 1.0\nContent-Type: text/cloud-boothook\nContent-Type: text/x-shellscript\n\n${SCRIPT}`,
  ],
  [
    'a second transfer encoding',
    message(
      `Content-Type: text/plain\nContent-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\n${HOOK}`,
    ),
  ],
  ['a transfer encoding with a blank', encoded('base64 ', HOOK)],
  ['a transfer encoding with junk', encoded('base64; x', HOOK)],
  ['base64 that is text', encoded('base64', HOOK)],
  ...[0, 1, 2, 3].map(
    (extra) =>
      [
        `base64 of ${extra} characters too many`,
        encoded('base64', `#cloud-boothook #!/usr/bin/touch /x${'A'.repeat(extra)}`),
      ] as const,
  ),
  ['quoted-printable with a blank at the end', encoded('quoted-printable', '#cloud-config= \n-archive')],
  [
    'a digest',
    message(`\nContent-Type: text/cloud-boothook\n\n${HOOK}`).replace('multipart/mixed', 'multipart/digest'),
  ],
  [
    'a boundary and a form feed',
    message(part('text/x-shellscript', `${SCRIPT}\n--b--\f`), part('text/cloud-boothook', HOOK)),
  ],
  [
    'a boundary and a vertical tab',
    message(part('text/x-shellscript', `${SCRIPT}\n--b--\v`), part('text/cloud-boothook', HOOK)),
  ],
  [
    'line ends of CR alone',
    message(
      part(
        'text/x-shellscript',
        `${SCRIPT}\r--b\rContent-Type: text/cloud-boothook\r\r${HOOK.replaceAll('\n', '\r')}`,
      ),
    ),
  ],
  ['a CR among the headers', message(`X: y\rContent-Type: text/cloud-boothook\n\n${SCRIPT}`)],
  ['a CR behind a parameter', message(`${once}; x=y\r\r${HOOK}`)],
  ['a boundary within quotes', twoMessages('x="; boundary=fake"; boundary=b')],
  ['a boundary in the form of RFC 2231', twoMessages("boundary*=us-ascii''b; x=y; boundary=fake")],
  ['two boundaries', twoMessages('boundary=b; boundary=fake')],
  [
    'a closing boundary right behind one',
    message(part('text/x-shellscript', SCRIPT)).replace(
      '--b--\n',
      `--b\n--b--\n${part('text/cloud-boothook', HOOK)}\n--b--\n`,
    ),
  ],
  [
    'an inner message without an end',
    message(`Content-Type: multipart/mixed; boundary=c\n\n--c\n${part('text/cloud-boothook', HOOK)}`),
  ],
  ['a type of three words', message(part('multipart/mixed/x; boundary=c', HOOK))],
  ['a part without the empty line', message(`Content-Type: text/plain\n${HOOK}`)],
  ['a header that is none', message(`Content-Type : text/x-shellscript-per-instance\n\n${HOOK}`)],
  ['a From line', message(`From x: a\n${once}\n\n${HOOK}`)],
  [
    'an alias as a key of an archive',
    `#cloud-config-archive\n- {type: text/x-shellscript, content: &t type}\n- *t : text/cloud-boothook\n  content: ${JSON.stringify(SCRIPT)}\n`,
  ],
  [
    'an alias of a merge key',
    `#cloud-config-archive\n- {&m <<: {a: b}, content: "#!/bin/sh"}\n- *m : {type: text/cloud-boothook}\n  content: ${JSON.stringify(SCRIPT)}\n`,
  ],
  [
    'a key of another string tag',
    `#cloud-config-archive\n- {type: text/x-shellscript, !!python/unicode type: text/cloud-boothook, content: ${JSON.stringify(SCRIPT)}}\n`,
  ],
  ['binary content', `#cloud-config-archive\n- content: !!binary "ICAg: ${base64(HOOK)}"\n`],
  [
    'an archive that is a set',
    message(part('text/cloud-config-archive', `#cloud-config-archive\n!!set {? ${JSON.stringify(HOOK)}}`)),
  ],
];

const check = (text: string) => () => checkNothingRunsAtEachBoot(Buffer.from(text));

describe('a part that runs at every boot', () => {
  it.each(HIDDEN)('is not hidden by %s', (_, text) => {
    expect(check(text)).toThrow(UserDataError);
  });

  it('is a refusal that says why', () => {
    expect(check(HIDDEN[0]?.[1] ?? '')).toThrow(
      'user-data: content-type stands twice: which parts the message has is then known only in the guest, and seed.scrub ' +
        'needs to know it before',
    );
  });
});

describe('a message as programs write it', () => {
  it.each([
    ['of LF', message(part('text/x-shellscript; charset="us-ascii"', SCRIPT, 'MIME-Version: 1.0\n'))],
    ['of CRLF', message(part('text/x-shellscript', SCRIPT)).replaceAll('\n', '\r\n')],
    ['in base64', encoded('base64', `${base64(SCRIPT)}\n`)],
    ['in quoted-printable', encoded('quoted-printable', '#!/bin/sh\necho =3D=\n1\n')],
    [
      'with a preamble, a folded field and blanks behind a boundary',
      message(part('text/x-shellscript;\n charset=utf-8', SCRIPT)).replace(
        '\n\n--b\n',
        '\n\nhello\n--b \t\n',
      ),
    ],
    [
      'with an inner message',
      message(
        `Content-Type: multipart/alternative; boundary="===1=="\n\n--===1==\n${part('text/x-shellscript', SCRIPT)}\n--===1==--\n`,
      ),
    ],
  ])('%s is let through', (_, text) => {
    expect(check(text)).not.toThrow();
  });
});

describe('a message that Python repairs, without scrub', () => {
  const prepare = (text: string) => () => prepareUserData(Buffer.from(text), '');
  const cut = (text: string) => text.replace(/--b--\n$/, '');

  it.each([
    [
      'a closing boundary with a form feed',
      cut(message(part('text/plain', SCRIPT))).concat('--b--\f\n'),
      false,
    ],
    ['the extended form in quotes', cut(twoMessages('x="; boundary*"; boundary=gone')), false],
    ['a plain boundary beside the extended form', cut(twoMessages('boundary*=gone; boundary=gone')), false],
    ['a boundary behind one in quotes', cut(twoMessages('x="; boundary=fake"; boundary=gone')), false],
    [
      'a second content-type',
      message(part('text/plain', '')).replace('\n', '\nContent-Type: multipart/mixed; boundary=x\n'),
      true,
    ],
    ['line ends of CR alone', message(part('text/plain', SCRIPT)).replaceAll('\n', '\r'), true],
    ['a boundary in the form of RFC 2231', twoMessages("boundary*=us-ascii''b"), true],
  ])('%s: read as Python reads it', (_, text, isWhole) => {
    if (isWhole) expect(prepare(text)).not.toThrow();
    else expect(prepare(text)).toThrow(UserDataError);
  });
});

/** Single faults, at a place that is drawn. */
const SNIPPETS: readonly string[] = [
  ...[
    '\r',
    '\f',
    '\v',
    '\x1c',
    '\t',
    ' ',
    '\n',
    '\r\n',
    '=',
    '"',
    ';',
    '--',
    '--b\n',
    '--b--\n',
    '--c\n',
    '--c--\n',
  ],
  ...['Content-Type: text/cloud-boothook\n', 'Content-Type: text/plain\n', 'content-type:\n text/plain\n'],
  ...[
    'Content-Transfer-Encoding: base64\n',
    'Content-Transfer-Encoding: 7bit\n',
    'From x\n',
    ': x\n',
    ' folded\n',
  ],
  ...[
    '; boundary=c',
    '; boundary="c"',
    '; boundary*=c',
    '; x="; boundary=c"',
    ' (b)',
    '/x',
    '=\n',
    '= \n',
    '=23',
    'A',
  ],
];
const SUBSTITUTES: readonly (readonly [RegExp, string])[] = [
  [/multipart\/mixed/, 'multipart/digest'],
  [/text\/x-shellscript-per-instance/, 'text'],
  [/\n\n/, '\n'],
  [/--b--/, '--b'],
  [/--c--/, '--c'],
  [/base64/, 'quoted-printable'],
  [/boundary="b"/, 'boundary="b "'],
  [/\n/g, '\r\n'],
];
const mutation = fc.oneof(
  fc.tuple(fc.nat(), fc.constantFrom(...SNIPPETS)).map(([at, snippet]) => (text: string) => {
    // Mostly where lines begin or end: there the readers decide.
    const ends = [...text.matchAll(/(?=\n)|(?<=\n)/g)].map(({ index }) => index);
    const offset = at % 4 === 0 ? at % text.length : (ends[at % ends.length] ?? 0);
    return text.slice(0, offset) + snippet + text.slice(offset);
  }),
  fc.constantFrom(...SUBSTITUTES).map(
    ([from, to]) =>
      (text: string) =>
        text.replace(from, to),
  ),
);
const content = fc.constantFrom(
  part('text/x-shellscript-per-instance', HOOK),
  part('text/x-shellscript', `${SCRIPT}--c\nContent-Type: text/cloud-boothook\n\n${HOOK}--c--\n`),
  part('text/plain', base64(`${HOOK} `), 'Content-Transfer-Encoding: base64\n'),
  part('text/x-shellscript-per-instance', base64(HOOK), 'Content-Transfer-Encoding: base64\n'),
  part('text/plain', '=23cloud-boothook\n', 'Content-Transfer-Encoding: 7bit\n'),
  part('text/x-shellscript', SCRIPT),
  `Content-Type: multipart/mixed; boundary=c\n\n--c\n${part('text/x-shellscript', SCRIPT)}\n--c--\n`,
);
const mutated = fc
  .tuple(
    fc.array(content, { minLength: 1, maxLength: 3 }),
    fc.constantFrom('', `${part('text/cloud-boothook', HOOK)}\n`),
    fc.array(mutation, { maxLength: 3 }),
  )
  .map(([parts, epilogue, mutations]) =>
    mutations.reduce((text, mutate) => mutate(text), message(...parts) + epilogue),
  );

const runsAtEachBoot = ({ parts, config }: SeedReading) =>
  parts.some(({ type }) => /boothook|per-boot|part-handler|include/.test(type)) ||
  /bootcmd/.test(JSON.stringify(config));

describe.skipIf(!oracleIsInstalled)('what is let through, as cloud-init reads it', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  it('brings nothing that runs at every boot', { timeout: 60_000 }, async () => {
    const texts = fc.sample(mutated, { numRuns: 1500, seed: 20_261_130 });
    const readings = await Promise.all(
      texts.map(async (text) => {
        let prepared: Uint8Array;
        try {
          prepared = prepareUserData(Buffer.from(text), '').userData;
        } catch {
          return null;
        }
        let isAccepted = true;
        try {
          check(text)();
        } catch {
          isAccepted = false;
        }
        const reading = await oracle.seed(prepared).catch(() => null);
        return reading && { text, isAccepted, runs: runsAtEachBoot(reading) };
      }),
    );
    const read = readings.filter((reading) => reading !== null);

    expect(read.filter(({ isAccepted, runs }) => isAccepted && runs).map(({ text }) => text)).toEqual([]);
    // Or the property would hold of nothing.
    expect(read.filter(({ isAccepted }) => isAccepted).length).toBeGreaterThan(100);
    expect(read.filter(({ runs }) => runs).length).toBeGreaterThan(100);
  });
});
