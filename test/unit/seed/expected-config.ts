/**
 * What a guest should see: the user's configuration as PyYAML reads it, plus the agent at the end of two lists, each
 * only when it is not there already. Written apart from the library, on the values Python reports.
 */
import { AGENT_COMMAND, AGENT_PACKAGE } from '../../../lib/seed/guest-agent.ts';
import type { Tagged } from './oracle.ts';

/** Pairs of a tagged dict in order; none for null, which is what PyYAML makes of a document without content. */
export function pairsOf(value: Tagged): [string, Tagged][] {
  if (value === null) {
    return [];
  }
  if (typeof value === 'string' || Array.isArray(value) || !('dict' in value)) {
    throw new Error('not a mapping');
  }
  const pairs = value['dict'] as [Tagged, Tagged][];
  return pairs.map(([key, item]) => [typeof key === 'string' ? key : JSON.stringify(key), item]);
}

/** Key by key, without their order: a merge key moves where Python puts what it brings. */
export function asRecord(value: Tagged): Record<string, Tagged> {
  return Object.fromEntries(pairsOf(value));
}

/**
 * @param present which of the lists are known to bring the agent already
 */
export function withAgent(
  before: Tagged,
  present: { packages?: boolean; runcmd?: boolean } = {},
): Record<string, Tagged> {
  const expected = asRecord(before);
  // These two belong to the merging of parts, and cloud-init takes them out when it reads one.
  delete expected['merge_how'];
  delete expected['merge_type'];
  if (!present.packages) {
    expected['packages'] = [...listOf(expected['packages']), AGENT_PACKAGE];
  }
  if (!present.runcmd) {
    expected['runcmd'] = [...listOf(expected['runcmd']), AGENT_COMMAND];
  }
  return expected;
}

function listOf(value: Tagged | undefined): readonly Tagged[] {
  return Array.isArray(value) ? value : [];
}
