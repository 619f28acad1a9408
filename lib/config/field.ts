/**
 * The field kinds that the schema is made of, and the words for what zod finds wrong with them: a fault is read by
 * whoever wrote the file, who knows YAML and not zod.
 */
import * as z from 'zod';
import type { PlacedFault } from './fault.ts';

export const text = z.string();

/** A whole number between two bounds, both included. */
export function whole(min: number, max: number) {
  const rule = `must be a whole number from ${min} to ${max}`;
  const explain = ({ input }: z.core.$ZodRawIssue) => (input === undefined ? 'is missing' : rule);
  return z.int({ error: explain }).min(min, rule).max(max, rule);
}

/**
 * A mapping that is one of several shapes, told apart by the key that only this one has. A plain union would answer
 * a single mistake with the faults of every shape.
 */
export function byKey<S extends Record<string, z.ZodType>>(shapes: S) {
  const keys = Object.keys(shapes);
  const choice = keys.map((key) => `\`${key}\``).join(' or ');
  return z.unknown().transform((value, context): z.output<S[keyof S]> => {
    const present = isMapping(value) ? keys.filter((key) => Object.hasOwn(value, key)) : [];
    const [key] = present;
    const shape = key === undefined || present.length > 1 ? undefined : shapes[key as keyof S];
    if (shape === undefined) {
      const missing = value === undefined ? 'is missing: ' : '';
      context.addIssue({ code: 'custom', message: `${missing}must be a mapping with either ${choice}` });
      return z.NEVER;
    }
    const parsed = shape.safeParse(value, { error: explainIssue });
    if (parsed.success) return parsed.data as z.output<S[keyof S]>;
    for (const { path, detail, part } of parsed.error.issues.flatMap(placeIssue)) {
      context.addIssue({ code: 'custom', path: [...path], message: detail, params: { part } });
    }
    return z.NEVER;
  });
}

/** Where a finding belongs in the file: unknown keys are one fault each, at the key. */
export function placeIssue(issue: z.core.$ZodIssue): PlacedFault[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...issue.path, key],
      part: 'key',
      detail: 'is not a known key',
    }));
  }
  const part = issue.code === 'custom' && issue.params?.['part'] === 'key' ? 'key' : 'value';
  return [{ path: issue.path, part, detail: issue.message }];
}

/** zod's finding in the words of the file; null leaves it to the schema's own message. */
export const explainIssue: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type') {
    if (issue.input === undefined) return 'is missing';
    const hint = issue.expected === 'string' && typeof issue.input !== 'object' ? ' (quote it)' : '';
    return `must be ${article(issue.expected)}, not ${describe(issue.input)}${hint}`;
  }
  if (issue.code === 'invalid_value') return `must be ${issue.values.join(' or ')}`;
  return null;
};

function article(expected: string): string {
  const names: Record<string, string> = {
    object: 'a mapping',
    record: 'a mapping',
    array: 'a list',
    string: 'a string',
    int: 'a whole number',
  };
  return names[expected] ?? `a ${expected}`;
}

function describe(value: unknown): string {
  if (value === null) return 'empty';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  return `a ${typeof value}`;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
