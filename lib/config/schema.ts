/**
 * The configuration's shape, defaults and single-field rules. Types are inferred from here. What concerns several
 * fields at once is in rules.ts, because zod skips such a check as soon as one field is wrong, and a bad file is to
 * be answered with every fault it has.
 */
import * as z from 'zod';
import { awsSection } from './aws-schema.ts';
import { byKey, text, whole } from './field.ts';
import { INTERFACE_NAME, isHostAddress, POOL_NAME, USER_NAME } from './names.ts';

/** Linux `sun_path` holds 108 bytes with the terminating zero. */
const SOCKET_PATH_BYTES = 107;
/** A week: a create or a delete that is older than that has been forgotten by whoever asked for it. */
const MAX_DEADLINE_SECONDS = 7 * 24 * 3600;
/** Secrets Manager: a name, or the ARN of the secret. */
const SECRET_ID =
  /^(?:[A-Za-z0-9/_+=.@-]{1,512}|arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,519})$/;

const secretOrFile = byKey({
  secret: z.strictObject({ secret: text.regex(SECRET_ID, 'must be a secret’s name or ARN') }),
  file: z.strictObject({ file: text.min(1, 'must name a file') }),
});

const ssh = z.strictObject({
  user: text.regex(USER_NAME, 'must be a user name on the hosts'),
  privateKey: secretOrFile,
  passphrase: secretOrFile.optional(),
  knownHosts: byKey({
    text: z.strictObject({ text }),
    file: z.strictObject({ file: text.min(1, 'must name a file') }),
  }),
});

const host = z.strictObject({
  name: text,
  address: text.refine(isHostAddress, 'must be an IP address or a host name'),
  port: whole(1, 65_535).default(22),
  bridge: text.regex(
    INTERFACE_NAME,
    'must be a network interface name: 1–15 characters, no slash, colon or space',
  ),
  socket: text
    .refine(isSocketPath, `must be an absolute path of at most ${SOCKET_PATH_BYTES} bytes`)
    .default('/run/libvirt/libvirt-sock'),
  transport: z.enum(['auto', 'socket', 'helper']).default('auto'),
  pool: text.regex(POOL_NAME, 'must be a storage pool’s name: no slash, no space').default('default'),
  virtType: z.enum(['kvm', 'qemu']).default('kvm'),
});

/** Whether user-data is taken off the seed once cloud-init is done, where the request does not say. */
const seed = z.strictObject({
  scrub: z.boolean().default(false),
});

const machineType = z.strictObject({
  vcpus: whole(1, 512),
  memoryMiB: whole(64, 16 * 1024 * 1024),
  seed: seed.exactOptional(),
});

const readiness = z.strictObject({
  cloudInit: z.boolean().default(false),
});

const image = z.strictObject({
  url: text.superRefine((url, context) => {
    const fault = imageUrlFault(url);
    if (fault !== null) context.addIssue({ code: 'custom', message: fault });
  }),
  format: z.enum(['qcow2', 'raw']),
  /** Lower case whatever was written: the base volume's name carries it. */
  checksum: text
    .regex(
      /^(?:sha256:[0-9a-fA-F]{64}|sha512:[0-9a-fA-F]{128})$/,
      'must be sha256: and 64, or sha512: and 128 hexadecimal digits',
    )
    .toLowerCase(),
  /** Bytes; for sources that do not say how long the image is. */
  sizeBytes: whole(1, Number.MAX_SAFE_INTEGER).optional(),
});

const deadlines = z.strictObject({
  createSeconds: whole(1, MAX_DEADLINE_SECONDS).default(3600),
  deleteSeconds: whole(1, MAX_DEADLINE_SECONDS).default(600),
});

const gc = z.strictObject({
  mode: z.enum(['report', 'delete']).default('report'),
  graceSeconds: whole(0, MAX_DEADLINE_SECONDS).default(3600),
  maxDeletes: whole(0, 1_000_000).default(10),
  maxPercent: whole(0, 100).default(20),
});

export const configSchema = z.strictObject({
  fleet: text,
  ssh,
  hosts: z.array(host).min(1, 'needs at least one host'),
  machineTypes: z.record(z.string(), machineType).refine(isNotEmpty, 'needs at least one machine type'),
  images: z.record(z.string(), image).refine(isNotEmpty, 'needs at least one image'),
  /** GiB, for creates that do not say. */
  diskSizeGb: whole(1, 65_536).default(10),
  vendorData: text.default(''),
  /** What guests are asked through their agents beyond their addresses. */
  readiness: readiness.prefault({}),
  deadlines: deadlines.prefault({}),
  gc: gc.prefault({}),
  aws: awsSection.optional(),
});

type Parsed = z.infer<typeof configSchema>;

/** Immutable, with every default applied, file paths absolute and known_hosts read in. */
export type Config = DeepReadonly<
  Omit<Parsed, 'ssh'> & { ssh: Omit<Parsed['ssh'], 'knownHosts'> & { knownHosts: { text: string } } }
>;
export type AwsConfig = NonNullable<Config['aws']>;
export type SecretSource = Config['ssh']['privateKey'];

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

function isNotEmpty(record: object): boolean {
  return Object.keys(record).length > 0;
}

function isSocketPath(path: string): boolean {
  return path.startsWith('/') && !path.includes('\0') && Buffer.byteLength(path) <= SOCKET_PATH_BYTES;
}

function imageUrlFault(text: string): string | null {
  if (!URL.canParse(text)) return 'must be a URL';
  const url = new URL(text);
  if (!['http:', 'https:', 'file:'].includes(url.protocol)) return 'must be an http, https or file URL';
  // The URL is logged and shown in reasons.
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or a password';
  return null;
}
