/** Whether an image can be used on a host, for callers that only look: nothing is created, changed or refreshed. */
import type { LibvirtConnection, StoragePoolHandle } from '../libvirt/index.ts';
import { claimedUntil, findComplete, listGenerations } from './generations.ts';
import { baseVolumeName, type ImageSource } from './image-source.ts';
import { type ImagePlace, readFill } from './image-volumes.ts';

export type ImageState =
  | {
      readonly state: 'present';
      /** On the host. */
      readonly path: string;
      readonly volume: string;
      /** Size of the disk that a guest sees. */
      readonly capacityBytes: number;
    }
  | { readonly state: 'absent' }
  | {
      readonly state: 'importing';
      readonly doneBytes: number;
      readonly totalBytes: number | null;
      /** Milliseconds since the epoch: the importer is gone by then at the latest. */
      readonly until: number;
    };

export interface ImageStateOptions {
  readonly now: () => number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * One listing, and a second round trip for what it shows. On a pool that several hosts share, `absent` may be out of
 * date: importImage() looks at the directory itself.
 * @throws ImageError `source`; libvirt's errors.
 */
export async function imageState(
  connection: LibvirtConnection,
  pool: StoragePoolHandle,
  source: ImageSource,
  { now, signal }: ImageStateOptions,
): Promise<ImageState> {
  const place: ImagePlace = { connection, pool, base: baseVolumeName(source), options: { signal } };
  const generations = await listGenerations(place);
  const complete = await findComplete(place, generations);
  if (complete !== null) {
    const { name: path } = await connection.call('storageVolGetPath', { vol: complete.data }, { signal });
    return {
      state: 'present',
      path,
      volume: complete.data.name,
      capacityBytes: complete.virtualSizeBytes,
    };
  }
  const until = await claimedUntil(place, generations);
  if (until === null || until <= now()) return { state: 'absent' };

  const data = generations[0]?.data;
  const fill = data === undefined ? null : await readFill(place, data);
  const totalBytes = source.sizeBytes ?? fill?.sizeBytes ?? null;
  const writtenBytes = fill?.writtenBytes ?? 0;
  // Filesystems allocate whole blocks.
  const doneBytes = totalBytes === null ? writtenBytes : Math.min(writtenBytes, totalBytes);
  return { state: 'importing', doneBytes, totalBytes, until };
}
