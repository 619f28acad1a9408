/**
 * The number, text and time fields of ECMA-119 (ISO 9660), written into a buffer at their place. Multi-byte numbers
 * of descriptors and directory records stand twice, little- then big-endian, so that either reader finds its own.
 */

export const SECTOR_BYTES = 2048;

export const sectorsFor = (bytes: number): number => Math.ceil(bytes / SECTOR_BYTES);

/** ECMA-119 7.2.3: 16 bits in both byte orders, 4 bytes. */
export function writeBoth16(target: Buffer, offset: number, value: number): void {
  target.writeUInt16LE(value, offset);
  target.writeUInt16BE(value, offset + 2);
}

/** ECMA-119 7.3.3: 32 bits in both byte orders, 8 bytes. */
export function writeBoth32(target: Buffer, offset: number, value: number): void {
  target.writeUInt32LE(value, offset);
  target.writeUInt32BE(value, offset + 4);
}

/** ECMA-119 9.1.5: seven bytes, UTC. The year is counted from 1900 in one byte. */
export function recordTime(time: Date): Buffer {
  return Buffer.from([
    time.getUTCFullYear() - 1900,
    time.getUTCMonth() + 1,
    time.getUTCDate(),
    time.getUTCHours(),
    time.getUTCMinutes(),
    time.getUTCSeconds(),
    0,
  ]);
}

/** ECMA-119 8.4.26.1: sixteen digits down to the hundredth of a second, then the offset from GMT. */
export function descriptorTime(time: Date): Buffer {
  const digits = time.toISOString().replaceAll(/\D/g, '').slice(0, 16);
  return Buffer.concat([Buffer.from(digits, 'latin1'), Buffer.from([0])]);
}

/** The same field for "not specified": sixteen digit zeros. */
export const NO_DESCRIPTOR_TIME = Buffer.concat([Buffer.from('0'.repeat(16), 'latin1'), Buffer.from([0])]);

/** UCS-2 big-endian, the character set of a Joliet descriptor. */
export function ucs2be(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16();
}
