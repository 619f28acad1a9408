/** A schema's findings as faults: every wrong place of an input, with its pointer, in the caller's words. */
import type * as z from 'zod';
import type { Fault } from '../provider/provider-error.ts';
import { pointerToken, structuralFaults } from './json-body.ts';

export type Validated<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly faults: readonly Fault[] };

export function validate<T>(schema: z.ZodType<T>, input: unknown): Validated<T> {
  const structural = structuralFaults(input);
  const parsed = schema.safeParse(input, { error: explainIssue });
  if (parsed.success && structural.length === 0) return { ok: true, value: parsed.data };
  const known = new Set(structural.map((fault) => fault.pointer));
  const found = parsed.success ? [] : parsed.error.issues.flatMap(faultsOf);
  return {
    ok: false,
    faults: withoutRepeats([...structural, ...found.filter((fault) => !known.has(fault.pointer))]),
  };
}

/** One value can break two rules that are one to its sender: a number that is too large is no whole one either. */
function withoutRepeats(faults: readonly Fault[]): Fault[] {
  return [...new Map(faults.map((fault) => [`${fault.pointer} ${fault.detail}`, fault])).values()];
}

function faultsOf(issue: z.core.$ZodIssue): Fault[] {
  const pointer = issue.path.map((part) => `/${pointerToken(part)}`).join('');
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({
        pointer: `${pointer}/${pointerToken(key)}`,
        detail: 'is not a known field',
      }));
    case 'invalid_key':
      return [{ pointer, detail: issue.issues[0]?.message ?? issue.message }];
    default:
      return [{ pointer, detail: issue.message }];
  }
}

/** Null leaves it to the schema's own message. */
const explainIssue: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type') {
    return issue.input === undefined ? 'is missing' : `must be ${NOUNS[issue.expected] ?? issue.expected}`;
  }
  if (issue.code === 'invalid_value')
    return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
  if (issue.code === 'invalid_union') return 'must be a string or a list of strings';
  return null;
};

const NOUNS: Partial<Record<string, string>> = {
  object: 'a JSON object',
  record: 'a JSON object',
  array: 'a list',
  string: 'a string',
  boolean: 'true or false',
  int: 'a whole number',
};
