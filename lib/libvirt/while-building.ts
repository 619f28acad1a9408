/**
 * Waiting for a volume that a daemon is still making. It is listed and found before it is usable, and the daemon flushes
 * it to the disk before it is done, which takes seconds on a disk that is busy; until then it refuses to delete, read or
 * write it (storageVolDelete, storageVolDownload, storageVolUpload: code 55).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODE } from './error-codes.ts';
import { LibvirtError } from './errors.ts';

/** How long to wait for a volume that somebody else is making, and how often to look. */
const BUILDING_LIMIT_MS = 15_000;
const BUILDING_POLL_MS = 100;

/**
 * Repeats the attempt while it is refused with code 55, for at most 15 s of pauses.
 * @throws the last refusal; whatever else the attempt throws, at once; the signal's reason.
 */
export async function whileBuilding<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let waitedMs = 0; ; waitedMs += BUILDING_POLL_MS) {
    try {
      return await attempt();
    } catch (error) {
      const isBuilding = error instanceof LibvirtError && error.code === ERROR_CODE.operationInvalid;
      if (!isBuilding || waitedMs >= BUILDING_LIMIT_MS) throw error;
    }
    await sleep(BUILDING_POLL_MS);
    signal?.throwIfAborted();
  }
}
