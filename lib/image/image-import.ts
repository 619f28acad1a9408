/**
 * Brings an image onto a host: streamed from its source straight into a volume of the pool, hashed on the way, and
 * taken for complete only by the verdict given after the last byte matched. Nothing is kept in between, so that an
 * image may be larger than a function's memory and disk.
 */
import { createHash, type Hash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { LibvirtConnection, StoragePoolHandle } from '../libvirt/index.ts';
import { claimedUntil, findComplete, type Generation, listGenerations } from './generations.ts';
import type { Fetch } from './http-source.ts';
import { type ImageDownload, openImage } from './image-download.ts';
import { ImageError } from './image-error.ts';
import { baseVolumeName, type ImageSource, parseChecksum } from './image-source.ts';
import {
  createExclusively,
  deleteVolume,
  generationVolumeName,
  type ImagePlace,
  readCapacity,
  refreshPool,
} from './image-volumes.ts';
import {
  abandonGeneration,
  claimNextGeneration,
  giveVerdict,
  releaseClaim,
  settlePredecessors,
} from './import-claim.ts';
import { type ImportWindow, openWindow } from './import-window.ts';
import { requireStoredTail, TailKeeper } from './stored-tail.ts';

export interface ImportOptions {
  readonly fetch: Fetch;
  readonly now: () => number;
  /** When this invocation ends, in milliseconds since the epoch. The attempt ends, cleaned up, some seconds before. */
  readonly deadlineAt: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (doneBytes: number, totalBytes: number) => void;
  /** How long the source may be silent, in milliseconds; default 60,000. */
  readonly stallMs?: number | undefined;
  /**
   * Another session with the same daemon, by which a failed attempt is taken back when its own has broken: else its claim
   * keeps everybody away from the image until it expires. Called again while that fails. Whoever gives it closes it.
   */
  readonly reconnect?: () => Promise<LibvirtConnection>;
}

/** `busy`: another importer is at work, or was faster; imageState() says until when. */
export type ImportOutcome = 'imported' | 'busy';

/**
 * In which the host takes nothing of an upload. Its confirmation may have to wait for disks that first take what the
 * kernel buffered; the time of the attempt bounds it as well.
 */
const UPLOAD_STALL_MS = 120_000;
/** A daemon that was restarted is back within seconds. */
const RECONNECT_PAUSE_MS = 500;

/**
 * May be called again and by several at once: one imports, the others get `busy`; a complete image is left as it is.
 * @throws ImageError for what is wrong with the image, its source or the time; libvirt's errors as they are (a pool
 *   that fills up: code 38 with errno 28); the signal's reason. What was begun is taken back as far as the connection
 *   lasts, and otherwise by the next importer.
 */
export async function importImage(
  connection: LibvirtConnection,
  pool: StoragePoolHandle,
  source: ImageSource,
  options: ImportOptions,
): Promise<ImportOutcome> {
  const window = openWindow(source, options.deadlineAt, options.now, options.signal);
  try {
    const base = baseVolumeName(source);
    const place: ImagePlace = { connection, pool, base, options: { signal: window.signal } };
    await refreshPool(place);
    const seen = await listGenerations(place);
    if ((await findComplete(place, seen)) !== null) return 'imported';
    if (((await claimedUntil(place, seen)) ?? 0) > options.now()) return 'busy';
    return await importNext(place, seen, source, window, options);
  } finally {
    window.close();
  }
}

/** The source is opened and its head inspected before the host sees anything of it (IM-06, IM-07). */
async function importNext(
  place: ImagePlace,
  seen: readonly Generation[],
  source: ImageSource,
  window: ImportWindow,
  options: ImportOptions,
): Promise<ImportOutcome> {
  const { fetch, stallMs } = options;
  const download = await openImage(source, { fetch, signal: window.signal, stallMs });
  try {
    const generation = await claimNextGeneration(place, seen, options.deadlineAt);
    if (generation === null) return 'busy';
    try {
      if ((await settlePredecessors(place, seen)) === 'complete') {
        await releaseClaim(place, generation);
        return 'imported';
      }
      await requireRoom(place, source, download.sizeBytes);
      return await fill(place, generation, source, download, window, options);
    } catch (error) {
      if (await takeBack(place, generation, window, options)) return 'imported';
      throw error;
    }
  } finally {
    await download.close();
  }
}

async function fill(
  place: ImagePlace,
  generation: number,
  source: ImageSource,
  download: ImageDownload,
  window: ImportWindow,
  options: ImportOptions,
): Promise<ImportOutcome> {
  const { sizeBytes, header } = download;
  const data = generationVolumeName(place.base, 'data', generation);
  const vol = await createExclusively(place, data, sizeBytes);
  if (vol === null) return (await takeBack(place, generation, window, options)) ? 'imported' : 'busy';

  const counted = (doneBytes: number): void => {
    window.progress(doneBytes, sizeBytes);
    options.onProgress?.(doneBytes, sizeBytes);
  };
  const tail = new TailKeeper();
  await place.connection.upload(
    'storageVolUpload',
    { vol, offset: 0n, length: BigInt(sizeBytes), flags: 0 },
    verified(source, download.chunks, tail, counted),
    { ...place.options, timeoutMs: UPLOAD_STALL_MS },
  );
  await requireStoredTail(place, vol, sizeBytes, tail.bytes);
  const verdict = await giveVerdict(place, generation, header.virtualSizeBytes);
  if (verdict.kind !== 'verified') return 'busy';
  if ((await readCapacity(place, vol)) === null) {
    // Given up and cleaned away, the earlier verdict included: this one is about nothing.
    await deleteVolume(place, generationVolumeName(place.base, 'verdict', generation));
    return 'busy';
  }
  // The claim means nothing beside a verdict: one that stays behind is only untidy.
  await releaseClaim(place, generation).catch(() => undefined);
  return 'imported';
}

/**
 * Undoes an attempt, in the little time that an aborted one has left; on a connection that is gone only if there can be
 * another. True: the generation had been verified before, by a call whose answer was lost.
 */
async function takeBack(
  place: ImagePlace,
  generation: number,
  window: ImportWindow,
  { reconnect, signal: callersSignal }: ImportOptions,
): Promise<boolean> {
  const signal = window.takingBack();
  const hasBroken = () => place.connection.closed && reconnect !== undefined;
  for (;;) {
    try {
      const connection = hasBroken() ? await reconnect?.() : undefined;
      const unhurried = { ...place, connection: connection ?? place.connection, options: { signal } };
      const verdict = await abandonGeneration(unhurried, generation);
      return verdict.kind === 'verified';
    } catch {
      // The claim expires by itself, and the next importer settles the rest; the first error is the one to tell.
      if (!hasBroken() || signal.aborted || callersSignal?.aborted === true) return false;
    }
    await delay(RECONNECT_PAUSE_MS);
  }
}

/**
 * The source's bytes, hashed as they pass. A wrong checksum throws before the end, so that the upload is aborted and
 * never confirmed.
 */
async function* verified(
  source: ImageSource,
  chunks: AsyncIterable<Uint8Array>,
  tail: TailKeeper,
  counted: (doneBytes: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { algorithm, hex } = parseChecksum(source);
  const hash: Hash = createHash(algorithm);
  let doneBytes = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    tail.push(chunk);
    doneBytes += chunk.length;
    yield chunk;
    counted(doneBytes);
  }
  const found = hash.digest('hex');
  if (found === hex) return;
  throw new ImageError(
    'checksum',
    `image ${source.name}: its ${algorithm} is ${found}, not ${hex}; the source serves another image now, or a damaged one`,
  );
}

/** A pool filled to the last byte stops the guests that stand on it: better not to begin. */
async function requireRoom(
  { connection, pool, options }: ImagePlace,
  source: ImageSource,
  sizeBytes: number,
): Promise<void> {
  const { available } = await connection.call('storagePoolGetInfo', { pool }, options);
  if (available >= BigInt(sizeBytes)) return;
  throw new ImageError(
    'no-space',
    `image ${source.name}: it needs ${sizeBytes} bytes, pool ${pool.name} has ${available}`,
  );
}
