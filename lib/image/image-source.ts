/**
 * A cloud image as the configuration names it. The checksum is its identity: what stands in a pool is named after
 * the content, so a URL whose content moves on can never change a base that VMs already stand on.
 */
import { ImageError } from './image-error.ts';

export type ImageFormat = 'qcow2' | 'raw';

export interface ImageSource {
  /** The name requests use; for messages only. */
  readonly name: string;
  /** `http:`, `https:` or, for local use, `file:`. */
  readonly url: string;
  readonly format: ImageFormat;
  /** `sha256:` and 64, or `sha512:` and 128 hex digits. */
  readonly checksum: string;
  /** For sources that do not say it themselves. */
  readonly sizeBytes?: number;
}

export interface Checksum {
  readonly algorithm: 'sha256' | 'sha512';
  /** Lower case. */
  readonly hex: string;
}

const CHECKSUM = /^(?:(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128}))$/;
const NAME_DIGITS = 32;

/** @throws ImageError `source` */
export function parseChecksum(source: ImageSource): Checksum {
  const match = CHECKSUM.exec(source.checksum.toLowerCase());
  if (match?.[2] !== undefined) return { algorithm: 'sha256', hex: match[2] };
  if (match?.[4] !== undefined) return { algorithm: 'sha512', hex: match[4] };
  throw new ImageError(
    'source',
    `image ${source.name}: the checksum is neither sha256: and 64 nor sha512: and 128 hexadecimal digits`,
  );
}

/**
 * The name that every volume of this image in a pool starts with: the same for every configuration that names the
 * same content and format, and apart from the volumes of VMs (`kvmfn_…`).
 * @throws ImageError `source`
 */
export function baseVolumeName(source: ImageSource): string {
  return `kvmfn-base-${parseChecksum(source).hex.slice(0, NAME_DIGITS)}.${source.format}`;
}

/** The URL as it may be shown: a signed URL's query is a credential, and so is user information. */
export function displayUrl(source: ImageSource): string {
  if (!URL.canParse(source.url)) return '(not a URL)';
  const { protocol, host, pathname } = new URL(source.url);
  return `${protocol}//${host}${pathname}`;
}
