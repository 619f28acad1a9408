/**
 * The inputs of the functions, as their bare JSON. Types, validation and (later) the OpenAPI document all come from
 * these schemas. What depends on the deployment, such as which images there are, is in placement.ts.
 */
import * as z from 'zod';
import { DNS_LABEL, DNS_LABEL_RULE } from '../config/names.ts';

const ID_RULE = 'must be host/name, as an Instance’s id is written';

/** A year: whoever needs a VM for longer renews the lease. */
const MAX_TTL_SECONDS = 365 * 24 * 3600;
const MAX_GRACE_SECONDS = 3600;
const MAX_LABELS = 32;
/** In characters, base64 included. */
const MAX_CLOUD_INIT_LENGTH = 1024 * 1024;
const MAX_SSH_KEYS = 100;
const MAX_SSH_KEY_LENGTH = 16 * 1024;

export const requestUid = z.string().regex(/^[ -~]{1,128}$/, 'must be 1–128 printable ASCII characters');

/** Kubernetes' alphabet, so that labels travel to and from it; `=` is left out because the list filter is `k=v`. */
const labelKey = z
  .string()
  .regex(
    /^(?=.{1,63}$)[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?$/,
    'must be a label name: 1–63 letters, digits and . _ / -, beginning and ending with a letter or digit',
  );
const labelValue = z
  .string()
  .regex(
    /^(?:(?=.{1,63}$)[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?$/,
    'must be a label value: at most 63 letters, digits and . _ -, beginning and ending with a letter or digit',
  );

/** Counted before they are read: a body of some megabytes can hold a hundred thousand. */
const fewLabels = z.custom<Record<string, string>>(
  (labels) => typeof labels !== 'object' || labels === null || Object.keys(labels).length <= MAX_LABELS,
  `must be at most ${MAX_LABELS} labels`,
);

export const createInput = z.strictObject({
  name: z.string().regex(DNS_LABEL, DNS_LABEL_RULE),
  uid: requestUid.exactOptional(),
  placement: z.strictObject({
    host: z.string().exactOptional(),
    machineType: z.string(),
    image: z.string(),
  }),
  cloudInit: z
    .string()
    .max(MAX_CLOUD_INIT_LENGTH, `must be at most ${MAX_CLOUD_INIT_LENGTH} characters`)
    .exactOptional(),
  cloudInitEncoding: z.literal('base64').exactOptional(),
  networkConfig: z.record(z.string(), z.unknown()).exactOptional(),
  sshAuthorizedKeys: z
    .array(z.string().max(MAX_SSH_KEY_LENGTH, `must be at most ${MAX_SSH_KEY_LENGTH} characters`))
    .max(MAX_SSH_KEYS, `must be at most ${MAX_SSH_KEYS} keys`)
    .exactOptional(),
  /** GiB. */
  diskSizeGb: whole(1, 65_536).exactOptional(),
  ttlSeconds: whole(1, MAX_TTL_SECONDS).exactOptional(),
  labels: fewLabels.pipe(z.record(labelKey, labelValue)).exactOptional(),
  protected: z.boolean().exactOptional(),
  autostart: z.boolean().exactOptional(),
  seed: z.strictObject({ scrub: z.boolean() }).exactOptional(),
});
export type CreateInput = z.infer<typeof createInput>;

/** The host's part is free: an unknown one is a 404 however it is spelt. */
const instanceId = z.string().superRefine((id, context) => {
  const { host, name } = splitId(id);
  const message = host === '' ? ID_RULE : `${DNS_LABEL_RULE} (the name in host/name)`;
  if (host === '' || !DNS_LABEL.test(name)) context.addIssue({ code: 'custom', message });
});

/** `host/name` in its two parts; the host is empty when there is no slash. */
export function splitId(id: string): { readonly host: string; readonly name: string } {
  const slash = id.lastIndexOf('/');
  return { host: id.slice(0, Math.max(0, slash)), name: id.slice(slash + 1) };
}

export const getInput = z.strictObject({ id: instanceId });

export const deleteInput = z.strictObject({
  id: instanceId,
  uid: requestUid.exactOptional(),
  graceSeconds: whole(0, MAX_GRACE_SECONDS).exactOptional(),
});

const labelFilter = z.string().transform((text, context) => {
  const equals = text.indexOf('=');
  const [key, value] = equals < 0 ? [text, null] : [text.slice(0, equals), text.slice(equals + 1)];
  if (value !== null && labelKey.safeParse(key).success && labelValue.safeParse(value).success)
    return { key, value };
  context.addIssue({ code: 'custom', message: 'must be a label’s name and value: k=v' });
  return z.NEVER;
});

const pageCursor = z.string().transform((text, context) => {
  const id = Buffer.from(text, 'base64url').toString('utf8');
  if (Buffer.from(id, 'utf8').toString('base64url') === text && instanceId.safeParse(id).success) return id;
  context.addIssue({ code: 'custom', message: 'must be the nextCursor of an earlier page' });
  return z.NEVER;
});

export const listInput = z.strictObject({
  host: z.string().exactOptional(),
  /** Several must all match. */
  label: z
    .union([z.string().transform((one) => [one]), z.array(z.string())])
    .pipe(z.array(labelFilter).max(MAX_LABELS, `must be at most ${MAX_LABELS} labels`))
    .exactOptional(),
  limit: whole(1, 1000).default(100),
  /** Parsed into the id that the page begins after. */
  cursor: pageCursor.exactOptional(),
});
export type ListInput = z.infer<typeof listInput>;

/** Free, as in an id: an unknown host is a 404 however it is spelt. */
export const doctorInput = z.strictObject({ host: z.string() });
export type DoctorInput = z.infer<typeof doctorInput>;

const notBuilt = (rule: string) =>
  z.custom<never>(() => false, { message: `is not supported yet: ${rule}` }).exactOptional();

export const gcInput = z.strictObject({
  mode: z.enum(['report', 'delete'], 'must be report or delete (mark is not supported yet)').exactOptional(),
  liveUids: notBuilt('the collector decides by leases alone'),
  observedAt: notBuilt('it belongs to liveUids'),
});

function whole(min: number, max: number) {
  const rule = `must be a whole number from ${min} to ${max}`;
  return z.int(rule).min(min, rule).max(max, rule);
}
