/**
 * The time of hostile user-data: a MiB of the one thing that a pattern, a loop or a tree is slow with. Whoever may ask for a
 * VM could otherwise keep the process busy for minutes with one request. A shape here takes as much time as its length, or it
 * is refused; none is an error of the program.
 */
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { checkNothingRunsAtEachBoot } from '../../../lib/seed/each-boot.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { UserDataError } from '../../../lib/seed/user-data-error.ts';

/** A little less than what is taken, so that none of these is refused for its length. */
const LENGTH = 1024 * 1024 - 4096;
/** Of processor time, several times what the slowest of these takes; what is not linear takes minutes. */
const LIMIT_SECONDS = 3;
/** Of the clock: ends what never would, which the runner cannot, for it waits for code that does not yield. */
const HANG_MS = 30_000;

const fill = (unit: string, length = LENGTH) => unit.repeat(Math.floor(length / unit.length));
const list = (count: number, item: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => item(i));

const MULTIPART = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b';
const message = (...parts: readonly string[]) =>
  `${MULTIPART}\n\n${parts.map((part) => `--b\n${part}\n`).join('')}--b--\n`;
const cloudConfigs = (count: number, content: (index: number) => string) =>
  message(...list(count, (index) => `Content-Type: text/cloud-config\n\n${content(index)}`));
const nested = (depth: number, content: string) => {
  const open = list(depth, (i) => `Content-Type: multipart/mixed; boundary=b${i}\n\n--b${i}\n`).join('');
  return `MIME-Version: 1.0\n${open}\n${content}${list(depth, (i) => `\n--b${depth - 1 - i}--\n`).join('')}`;
};
const archives = (depth: number, padding: number) => {
  const lines = list(depth, (i) => `${'  '.repeat(i)}#cloud-config-archive\n${'  '.repeat(i)}- |\n`).join('');
  const indent = '  '.repeat(depth);
  return `${lines}${indent}#cloud-config\n${indent}a: 1\n${indent}#${'x'.repeat(padding)}\n`;
};
const config = (text: string) => `#cloud-config\n${text}\n`;
/** A long value and a line with many aliases of it. */
const aliased = (value: string, count: number, alias: string) =>
  config(`a: &a ${value}\nb: [${fill(alias, count * alias.length)}]`);
/** One level of nine merges a time. */
const merges = (depth: number) =>
  `a: &a0 {k: v}\n${list(depth, (i) => `b${i}: &a${i + 1} {<<: [${fill(`*a${i},`, 36)}]}\n`).join('')}<<: *a${depth}\n`;

const LONG = 'x'.repeat(900_000);
const BLANKS = ' '.repeat(LENGTH);

const SHAPES: Readonly<Record<string, () => string>> = {
  'blanks inside a line of a message': () => message(`\nx${BLANKS}y`),
  'blanks inside a boundary': () => `${MULTIPART}${BLANKS}c\n\n--b\n\nx\n--b--\n`,
  'blanks behind a type': () => `MIME-Version: 1.0\nContent-Type: text/plain${BLANKS}!\n\n#!/bin/sh\n`,
  'blanks behind a parameter': () => `${MULTIPART};${BLANKS}!\n\n--b\n\nx\n--b--\n`,
  'blanks between parameters': () => `${MULTIPART}${fill('; ')}\n\n--b\n\nx\n--b--\n`,
  'parameters of one name': () => `${MULTIPART}${fill(';a=b')}\n\n--b\n\nx\n--b--\n`,
  'parameters of many names': () =>
    `${MULTIPART}${list(70_000, (i) => `;a${i}=b`).join('')}\n\n--b\n\nx\n--b--\n`,
  'quotes that never end': () => `${MULTIPART}; ${fill('"a')}\n\n--b\n\nx\n--b--\n`,
  'escaped quotes': () => `${MULTIPART}; a="${fill('\\"')}\n\n--b\n\nx\n--b--\n`,
  'folded lines': () =>
    `MIME-Version: 1.0\nContent-Type: multipart/mixed;${fill('\n ')}boundary=b\n\n--b\n\nx\n--b--\n`,
  'fields of a message': () => `MIME-Version: 1.0\n${fill('a:b\n')}\nx`,
  'a boundary as long as its message': () =>
    `MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="${fill('-', 500_000)}c"\n\n${fill('-', 500_000)}\n`,
  'boundaries one after another': () => `${MULTIPART}\n\n${fill('--b\n')}--b--\n`,
  'empty lines': () => message(fill('\n')),
  'carriage returns': () => message(fill('\r')),
  'a long part in base64': () => `MIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\n${fill('QUFB')}\n`,
  'a long part in quoted-printable': () =>
    `MIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\n${fill('=41')}\n`,
  'blanks in quoted-printable': () =>
    `MIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\nx${BLANKS}y\n`,

  'lines behind what could be base64': () => `AAAAAAAAAAAAAAAAA${fill('\n')}!`,
  'blanks in the header of a template': () => `## template:${BLANKS}jinjax\n#cloud-config\n`,
  'blanks before a URL': () => `#include\n${BLANKS}x\n`,

  'blanks inside a value': () => config(`a: x${BLANKS}y`),
  'blanks inside a quoted value': () => config(`a: "x${BLANKS}y"`),
  'blanks inside a block': () => config(`a: |\n  x${BLANKS}y`),
  'backslashes in a quoted value': () => config(`a: "${fill('\\\\')}y"`),
  'quotes in a quoted value': () => config(`a: '${fill("''")}y'`),
  'a key without an end': () => config(`${fill('a')}: x`),
  'a tag without an end': () => config(`a: !${fill('a')} x`),
  'a decimal number': () => config(`a: ${fill('1')}`),
  'a hexadecimal number': () => config(`a: 0x${fill('f')}`),
  'a number to the base of 60': () => config(`a: 1${fill(':59')}`),
  'a key to the base of 60': () => config(`? 1${fill(':59')}\n: x`),
  'what is no float behind its tag': () => config(`a: !!float ${fill('1')}x`),
  'what is no time behind its tag': () => config(`a: !!timestamp "2001-01-01${BLANKS}x"`),
  'parentheses of a merge instruction': () => config(`merge_how: "list(${fill('(')}"`),
  'merge instructions': () => config(`merge_how: "${fill('list()+')}"`),
  'a command of one verb': () => config(`runcmd:\n- systemctl ${fill('start ')}`),
  'a command that enables': () => config(`runcmd:\n- systemctl --now ${fill('enable ')}`),
  'a command of separators': () => config(`runcmd:\n- "${fill('a;')}"`),
  'a shell in a shell': () => config(`runcmd:\n- "${fill('/sh ')}"`),

  'aliases of a long value': () => aliased(LONG, 28_000, '*a,'),
  'aliases of a long number that is none': () => aliased(`${'1'.repeat(900_000)}x`, 28_000, '*a,'),
  'aliases of a long value as keys': () => aliased(LONG, 9000, '{*a : b},'),
  'a command of aliases of a long word': () => config(`a: &a ${LONG}\nruncmd: [[${fill('*a,', 40_000)}]]`),
  'commands of aliases of a word': () =>
    config(`a: &a ${'x'.repeat(1000)}\nruncmd: [${fill(`[${fill('*a,', 3000)}],`, 80_000)}]`),
  'packages with one long list': () =>
    config(`l: &l [${fill('a,', 26_000)}]\npackages: [${fill('{a: *l},', 40_000)}]`),
  'merge instructions with one long name': () =>
    config(`a: &a ${LONG}\nmerge_how: [${fill('[*a],', 50_000)}]`),
  'lines that are to be indented': () => config(`b: [${fill('a,', 55_000)}]\na: "x\n${fill('y\n', 400)}"`),

  'parts of many entries': () => cloudConfigs(16, (i) => `k${i}: [${fill('a,', 58_000)}]`),
  'parts of many lines': () => cloudConfigs(17, (i) => `k${i}:\n${fill('- a\n', 56_000)}`),
  'parts without number': () => cloudConfigs(20_000, (i) => `a${i}: 1`),
  'parts that merge': () => cloudConfigs(900, (i) => `c: ${i}\n${merges(4)}`),
  'parts that are to be indented': () =>
    cloudConfigs(16, (i) => `k${i}: ${'z'.repeat(55_000)}\na: "x\n${fill('y\n', 190)}"`),
  'parts with aliases of a long value': () =>
    cloudConfigs(16, (i) => `k${i}: &a ${'1'.repeat(50_000)}x\nb: [${fill('*a,', 5000)}]`),
  'messages in messages': () => nested(19, fill('x\n', LENGTH - 2000)),
  'messages in messages without number': () => nested(15_000, 'x'),
  'archives in archives': () => archives(650, 100_000),
  'archives of escaped commas': () =>
    `#cloud-config-archive\n${list(6, (i) => `- "k${i}: \\x5b${fill('a\\x2c', 145_000)}]"\n`).join('')}`,
  'archives of escaped lines': () =>
    `#cloud-config-archive\n${list(6, (i) => `- "k${i}:\\n${fill('-\\x20a\\n', 120_000)}"\n`).join('')}`,
  'texts of an archive': () => `#cloud-config-archive\n${list(9000, (i) => `- 'a${i}'\n`).join('')}`,
  'archives in a message': () =>
    message(
      ...list(
        900,
        (i) => `Content-Type: text/cloud-config-archive\n\n${list(9, (n) => `- a${i}x${n}\n`).join('')}`,
      ),
    ),
  'entries of one long text behind blanks': () =>
    `#cloud-config-archive\n- {content: &a "${' '.repeat(900_000)}x"}\n${fill('- {content: *a}\n', 100_000)}`,
  'entries of one long type': () =>
    `#cloud-config-archive\n- {type: &a ${'X'.repeat(900_000)}, content: a}\n${fill('- {type: *a, content: b}\n', 100_000)}`,
};

const ENTRY_POINTS = {
  prepareUserData: (text: Uint8Array) => prepareUserData(text, ''),
  checkNothingRunsAtEachBoot,
};

describe.each(Object.entries(ENTRY_POINTS))('%s', (_, read) => {
  it.each(Object.entries(SHAPES))('takes its time for %s', { timeout: 2 * HANG_MS }, (__, make) => {
    const text = Buffer.from(make());
    const before = process.threadCpuUsage();

    let error: unknown = null;
    try {
      runInNewContext('read()', { read: () => read(text) }, { timeout: HANG_MS });
    } catch (thrown) {
      error = thrown;
    }

    const { user, system } = process.threadCpuUsage(before);
    if (error !== null) {
      expect(error).toBeInstanceOf(UserDataError);
      expect(error).not.toHaveProperty('message', expect.stringContaining('longer than 1048576'));
    }
    expect((user + system) / 1e6).toBeLessThan(LIMIT_SECONDS);
  });
});
