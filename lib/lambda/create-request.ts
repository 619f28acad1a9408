/** From the checked JSON of a create to what the provider is asked: user-data becomes bytes here, and stays bytes. */
import type { CreateRequest } from '../provider/provider.ts';
import { UserDataError } from '../seed/user-data-error.ts';
import { decodeUserData } from '../seed/user-data-text.ts';
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
  try {
    return { ...rest, cloudInit: decodeUserData(cloudInit, cloudInitEncoding) };
  } catch (error) {
    if (!(error instanceof UserDataError)) throw error;
    throw new RefusedRequest([{ pointer: '/cloudInit', detail: error.message }]);
  }
}
