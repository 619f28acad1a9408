/**
 * Decides from an image's first bytes whether it is what the configuration declares. The declared format is what the
 * host will use, so a file that is another one must be found out before it reaches a pool: a raw disk that is really
 * qcow2 would let its content name files of the host.
 */
import { ImageError } from './image-error.ts';
import type { ImageFormat } from './image-source.ts';
import { parseQcow2Header, QCOW2_MAGIC } from './qcow2-header.ts';

/** How much of an image is read before anything is created on a host; a whole default cluster. */
export const HEAD_BYTES = 64 * 1024;

/**
 * Larger disks are refused: the volume that records the virtual size is as large as that (sparse), and this is what
 * every filesystem that pools stand on can hold.
 */
export const MAX_VIRTUAL_BYTES = 8 * 1024 ** 4;

const SECTOR_BYTES = 512;

export interface ImageHeader {
  /** Size of the disk that a guest sees. */
  readonly virtualSizeBytes: number;
}

interface Signature {
  readonly what: string;
  readonly at?: number;
  readonly bytes: readonly number[];
}

const ascii = (text: string): readonly number[] => [...Buffer.from(text, 'latin1')];

const COMPRESSED: readonly Signature[] = [
  { what: 'xz-compressed', bytes: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00] },
  { what: 'gzip-compressed', bytes: [0x1f, 0x8b] },
  { what: 'zstd-compressed', bytes: [0x28, 0xb5, 0x2f, 0xfd] },
  { what: 'bzip2-compressed', bytes: ascii('BZh') },
  { what: 'lz4-compressed', bytes: [0x04, 0x22, 0x4d, 0x18] },
  { what: 'a zip archive', bytes: [0x50, 0x4b, 0x03, 0x04] },
  { what: 'a 7z archive', bytes: [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c] },
  { what: 'a tar archive', at: 257, bytes: ascii('ustar') },
];

/** Formats that libvirt and QEMU recognise by content, and that can name other files. */
const OTHER_DISKS: readonly Signature[] = [
  { what: 'a qcow (version 1) disk', bytes: [...QCOW2_MAGIC, 0, 0, 0, 1] },
  { what: 'a VMDK disk', bytes: ascii('KDMV') },
  { what: 'a VMDK disk', bytes: ascii('COWD') },
  { what: 'a VMDK description', bytes: ascii('# Disk DescriptorFile') },
  { what: 'a VHDX disk', bytes: ascii('vhdxfile') },
  { what: 'a VHD disk', bytes: ascii('conectix') },
  { what: 'a VDI disk', at: 64, bytes: [0x7f, 0x10, 0xda, 0xbe] },
  { what: 'a QED disk', bytes: [0x51, 0x45, 0x44, 0x00] },
  { what: 'a Parallels disk', bytes: ascii('WithoutFreeSpace') },
  { what: 'a Parallels disk', bytes: ascii('WithouFreSpacExt') },
];

/**
 * @param head the first HEAD_BYTES of the image, or all of a shorter one.
 * @param sizeBytes length of the whole image.
 * @throws ImageError `format` or `unsafe-header`; the message does not name the image.
 */
export function inspectHeader(head: Uint8Array, format: ImageFormat, sizeBytes: number): ImageHeader {
  if (head.length < Math.min(SECTOR_BYTES, sizeBytes) || sizeBytes < SECTOR_BYTES) {
    refuse(`${sizeBytes} bytes are no disk image`);
  }
  const known = [...COMPRESSED, ...OTHER_DISKS].find((signature) => matches(head, signature));
  if (known !== undefined) refuse(`it is ${known.what}, and must be ${format} as it stands`);
  if (isText(head.subarray(0, SECTOR_BYTES)))
    refuse('it is a text, perhaps an error page, and no disk image');

  const isQcow2 = matches(head, { what: 'qcow2', bytes: [...QCOW2_MAGIC] });
  if (isQcow2 !== (format === 'qcow2')) {
    refuse(isQcow2 ? 'it is qcow2 and declared raw' : 'it is declared qcow2 and does not begin like one');
  }
  const size = isQcow2 ? parseQcow2Header(head, sizeBytes).virtualSizeBytes : BigInt(sizeBytes);
  if (size > BigInt(MAX_VIRTUAL_BYTES)) refuse(`its virtual size of ${size} bytes is over 8 TiB`);
  return { virtualSizeBytes: Number(size) };
}

function matches(head: Uint8Array, { at = 0, bytes }: Signature): boolean {
  return bytes.every((byte, index) => head[at + index] === byte);
}

/** A boot sector always holds bytes that no text does; an answer in HTML, XML, JSON or plain words holds none. */
function isText(sector: Uint8Array): boolean {
  return sector.every(
    (byte) => byte >= 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d || byte === 0x0c,
  );
}

function refuse(fault: string): never {
  throw new ImageError('format', fault);
}
