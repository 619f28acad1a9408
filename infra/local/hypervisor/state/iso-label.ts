/** What a guest looks for on its disks: the volume label of an ISO 9660 image (ECMA-119 section 8.4). */

const PRIMARY_DESCRIPTOR_OFFSET = 16 * 2048;
const LABEL_OFFSET = 40;
const LABEL_BYTES = 32;

/** How far into an image `readIsoLabel` needs to see. */
export const ISO_LABEL_BYTES = PRIMARY_DESCRIPTOR_OFFSET + LABEL_OFFSET + LABEL_BYTES;

/** The volume label without its padding; undefined when the bytes are no ISO 9660 image. */
export function readIsoLabel(bytes: Uint8Array): string | undefined {
  const descriptor = Buffer.from(bytes).subarray(PRIMARY_DESCRIPTOR_OFFSET);
  if (descriptor.length < LABEL_OFFSET + LABEL_BYTES || descriptor[0] !== 1) {
    return undefined;
  }
  if (descriptor.toString('latin1', 1, 6) !== 'CD001') {
    return undefined;
  }
  return descriptor.toString('latin1', LABEL_OFFSET, LABEL_OFFSET + LABEL_BYTES).trimEnd();
}
