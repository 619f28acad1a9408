/**
 * What stands on a seed in the place of user-data that has done its work: a cloud-config without content, as long as what
 * was there, so that nothing else on the volume moves.
 */

/** With the empty mapping: cloud-init warns about a cloud-config without content. */
const EMPTY_CLOUD_CONFIG = '#cloud-config\n{}\n';

/** Shorter user-data cannot be replaced in its place. */
export const MIN_SCRUBBED_BYTES = EMPTY_CLOUD_CONFIG.length;

/** @throws RangeError below MIN_SCRUBBED_BYTES */
export function scrubbedUserData(bytes: number): Buffer {
  if (bytes < MIN_SCRUBBED_BYTES) throw new RangeError(`no cloud-config has only ${bytes} bytes`);
  return Buffer.from(EMPTY_CLOUD_CONFIG.padEnd(bytes, '\n'), 'latin1');
}
