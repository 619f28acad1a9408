/**
 * What a request asked for, field by field, so that a repeat can be told from another request and the difference be
 * named. Values that may be secret or large are kept as digests salted with the domain's UUID: metadata is readable
 * over libvirt's read-only socket.
 */
import { createHash } from 'node:crypto';
import type { CreateRequest } from '../provider/provider.ts';

export type Specification = Readonly<Record<string, string>>;

/** Two requests that differ here are the same if what they come to is: whoever compares them looks at that as well. */
export const SCRUB_FIELD = 'seed.scrub';

/** Absent fields and their defaults are the same request; so are labels in another order. */
export function specificationOf(request: CreateRequest, uuid: string): Specification {
  const digest = (value: string | Uint8Array) =>
    createHash('sha256').update(uuid).update(value).digest('hex');
  const labels = Object.entries(request.labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const fields: Record<string, string | undefined> = {
    'placement.machineType': request.placement.machineType,
    'placement.image': request.placement.image,
    cloudInit: request.cloudInit?.length ? digest(request.cloudInit) : undefined,
    networkConfig:
      request.networkConfig === undefined ? undefined : digest(canonicalJson(request.networkConfig)),
    sshAuthorizedKeys: request.sshAuthorizedKeys?.length
      ? digest(request.sshAuthorizedKeys.join('\n'))
      : undefined,
    diskSizeGb: request.diskSizeGb?.toString(),
    ttlSeconds: request.ttlSeconds?.toString(),
    labels: labels.length > 0 ? JSON.stringify(labels) : undefined,
    protected: request.protected ? 'true' : undefined,
    autostart: request.autostart === false ? 'false' : undefined,
    // What it says and not what it comes to: the machine type's own word may change between two equal requests.
    [SCRUB_FIELD]: request.seed?.scrub.toString(),
  };
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** The names of the fields in which two specifications differ; empty when they are the same. */
export function differingFields(a: Specification, b: Specification): readonly string[] {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].filter((name) => a[name] !== b[name]).sort();
}

/** The digest of a seed that the identity carries. */
export function seedDigest(uuid: string, seed: Uint8Array): string {
  return createHash('sha256').update(uuid).update(seed).digest('hex');
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
