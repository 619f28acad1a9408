import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { checkNothingRunsAtEachBoot } from '../../../lib/seed/each-boot.ts';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';

const nine = (name: string) => Array.from({ length: 9 }, () => `*${name}`).join(', ');

/** Each level merges the one before nine times. */
const merges = (depth: number): string =>
  [
    '#cloud-config',
    'a: &a0 {k: v}',
    ...Array.from({ length: depth }, (_, level) => `b${level}: &a${level + 1} {<<: [${nine(`a${level}`)}]}`),
    `<<: *a${depth}`,
    '',
  ].join('\n');

const many = (item: string) => Array.from({ length: 14_000 }, () => item).join(',');

const packages = [
  '#cloud-config',
  'a0: &a0 {apt: [x]}',
  ...Array.from({ length: 12 }, (_, level) => `a${level + 1}: &a${level + 1} {apt: [${nine(`a${level}`)}]}`),
  'packages: [*a12]',
  '',
].join('\n');

/** Far above what a linear walk takes on a slow machine, and far below what a multiplying one takes. */
const LIMIT_MS = 4000;

/** Ends a reading that takes too long, which the runner cannot: it waits for code that never yields. */
const within = (read: () => unknown): unknown => runInNewContext('read()', { read }, { timeout: LIMIT_MS });

const entryPoints = {
  prepareUserData: (text: string) => within(() => prepareUserData(Buffer.from(text), '')),
  checkNothingRunsAtEachBoot: (text: string) => within(() => checkNothingRunsAtEachBoot(Buffer.from(text))),
};

describe.each(Object.entries(entryPoints))('%s', (_, read) => {
  it('refuses merge keys that multiply, with line and column', () => {
    expect(() => read(merges(12))).toThrow(
      /^user-data: line 7, column \d+: merge keys << that bring more than 30000 entries/,
    );
  });

  it('counts a merged mapping that is empty', () => {
    const text = `#cloud-config\ne: &e {}\nl: &l [${Array.from({ length: 200 }, () => '*e').join(',')}]\n${'<<: *l\n'.repeat(200)}`;

    expect(() => read(text)).toThrow('merge keys << that bring more than 30000 entries');
  });

  it('takes merge keys of merge keys as people write them', () => {
    expect(() => read(merges(2))).not.toThrow();
  });

  it.each([
    ['package lists that multiply', packages],
    ['one long command, many times', `#cloud-config\nw: &w [${many('a')}]\nruncmd: [${many('*w')}]\n`],
    [
      'one long list of packages, many times',
      `#cloud-config\nw: &w [${many('a')}]\nm: &m {${Array.from({ length: 500 }, (__, i) => `k${i}: *w`).join(',')}}\npackages: [${Array.from({ length: 500 }, () => '*m').join(',')}]\n`,
    ],
    [
      'one long merge instruction, many times',
      `#cloud-config\nm: &m {${Array.from({ length: 7000 }, (__, i) => `k${i}: a`).join(',')}, name: dict, settings: []}\nmerge_how: [${many('*m')}]\n`,
    ],
  ])('answers in time for %s', (__, text) => {
    expect(() => read(text)).not.toThrow();
  });
});

describe('an archive', () => {
  const content = JSON.stringify(
    `#cloud-config\nx: [${Array.from({ length: 3000 }, () => 'a').join(',')}]\n`,
  );

  it.each([
    ['entry', `#cloud-config-archive\n- &x {content: ${content}}\n${'- *x\n'.repeat(10_000)}`],
    ['content', `#cloud-config-archive\n- {content: &x ${content}}\n${'- {content: *x}\n'.repeat(5000)}`],
  ])('that names one long %s many times is read once', (_, text) => {
    expect(() => entryPoints.checkNothingRunsAtEachBoot(text)).not.toThrow();
  });
});
