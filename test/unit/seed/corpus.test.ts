import { afterAll, describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { readCorpus } from './corpus.ts';
import { asRecord, withAgent } from './expected-config.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

/** Documents that bring the agent, or a part of it, themselves. */
const AGENT_PRESENT: Readonly<Record<string, { packages?: boolean; runcmd?: boolean }>> = {
  'agent already among the packages': { packages: true },
  'agent with a version': { packages: true },
  'agent under its package manager': { packages: true },
  'agent started already by systemctl': { packages: true, runcmd: true },
  'agent started already in a string': { packages: true, runcmd: true },
};

/** Documents whose lists cannot be added to in place; they are delivered beside the agent's part. */
const IN_TWO_PARTS: readonly string[] = [
  'entries with anchors in a borrowed list',
  'one list under both keys',
  'literal that ends with blanks only',
];

/** Documents in which an alias, a null or the end of the text has to give way. */
const REWRITTEN: readonly string[] = [
  'null values',
  'list by alias',
  'block list by alias',
  'anchored list that others use',
  'anchored flow list that others use',
  'anchored commands that others use',
  'literal with keep that ends with the text',
  'literal with an indicator that ends with the text',
  'byte-order mark',
  'header with white space before it',
];

const corpus = readCorpus();
const prepare = (text: string) => Buffer.from(prepareUserData(Buffer.from(text), '').userData).toString();

describe('the corpus', () => {
  it('holds at least 150 documents, each named once', () => {
    expect(corpus.length).toBeGreaterThanOrEqual(150);
    expect(new Set(corpus.map(({ name }) => name)).size).toBe(corpus.length);
  });

  it.each(corpus)('prepares “$name” to the same result again', ({ text }) => {
    const once = prepare(text);

    if (once.startsWith('#cloud-config')) {
      expect(prepare(once)).toBe(once);
    }
  });

  it.each(corpus)('keeps every character of “$name” in its order', ({ name, text }) => {
    const prepared = prepare(text);

    expect(prepared.startsWith('Content-Type: multipart/')).toBe(IN_TWO_PARTS.includes(name));
    expect(isSubsequence(text, prepared)).toBe(!REWRITTEN.includes(name));
  });
});

describe.skipIf(!oracleIsInstalled)('the corpus, read by cloud-init', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  it.each(corpus)('finds “$name” unchanged but for the agent', async ({ name, text }) => {
    const before = await oracle.yaml(text.replace('\uFEFF', '').trimStart());
    const after = await oracle.seed(prepare(text));

    expect(before).not.toHaveProperty('error');
    expect(after.warnings).toEqual([]);
    expect(after.parts).toEqual([]);
    expect(asRecord(after.config)).toEqual(
      withAgent('value' in before ? before.value : null, AGENT_PRESENT[name]),
    );
  });
});

function isSubsequence(short: string, long: string): boolean {
  let index = 0;
  for (const character of long) {
    if (short.startsWith(character, index)) {
      index += character.length;
    }
  }
  return index === short.length;
}
