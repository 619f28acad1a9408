/** One page of a listing: which instances it shows, in which order, and where the next one begins. */
import type { HostView, Instance } from '../provider/instance.ts';
import type { Listing } from '../provider/provider.ts';
import { type ListInput, splitId } from './request-schema.ts';

export interface ListPage {
  readonly instances: readonly Instance[];
  readonly hosts: readonly HostView[];
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null;
}

/** Lambda carries 6 MB of answer; with many labels a thousand instances would not fit, so a page also ends here. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024;

/** Pure. Ordered by host and name, in code units, so that a cursor means the same on every page. */
export function buildPage(listing: Listing, { label: filters = [], limit, cursor }: ListInput): ListPage {
  const after = cursor === undefined ? null : splitId(cursor);
  const rest = listing.instances
    .filter(({ labels }) =>
      filters.every(({ key, value }) => Object.hasOwn(labels, key) && labels[key] === value),
    )
    .filter((instance) => after === null || compareIds(instance, after) > 0)
    .toSorted(compareIds);

  const instances: Instance[] = [];
  let bytes = 0;
  for (const instance of rest.slice(0, limit)) {
    bytes += Buffer.byteLength(JSON.stringify(instance));
    if (bytes > MAX_PAGE_BYTES && instances.length > 0) break;
    instances.push(instance);
  }
  const last = instances.at(-1);
  const more = last !== undefined && instances.length < rest.length;
  return {
    instances,
    hosts: listing.hosts,
    nextCursor: more ? Buffer.from(last.id, 'utf8').toString('base64url') : null,
  };
}

interface Located {
  readonly host: string;
  readonly name: string;
}

function compareIds(a: Located, b: Located): number {
  return compare(a.host, b.host) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
