/** From the checked JSON of a create to what the provider is asked: user-data becomes bytes here, and stays bytes. */
import type { CreateRequest } from '../provider/provider.ts';
import { RefusedRequest } from './refused-request.ts';
import type { CreateInput } from './request-schema.ts';

/** @throws RefusedRequest for user-data that is not in the encoding it claims. */
export function toCreateRequest(input: CreateInput): CreateRequest {
  const { cloudInit, cloudInitEncoding, ...rest } = input;
  if (cloudInit === undefined) {
    if (cloudInitEncoding === undefined) return rest;
    throw new RefusedRequest([
      { pointer: '/cloudInitEncoding', detail: 'says how cloudInit is encoded, which is missing' },
    ]);
  }
  const bytes = cloudInitEncoding === 'base64' ? decodeBase64(cloudInit) : Buffer.from(cloudInit, 'utf8');
  return { ...rest, cloudInit: bytes };
}

/** Line breaks are allowed, since that is how the usual tools write base64; anything else Buffer would skip is not. */
function decodeBase64(text: string): Uint8Array {
  const compact = text.replace(/[\r\n]/g, '');
  if (compact.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(compact))
    return Buffer.from(compact, 'base64');
  throw new RefusedRequest([
    { pointer: '/cloudInit', detail: 'is not base64, as cloudInitEncoding says it is' },
  ]);
}
