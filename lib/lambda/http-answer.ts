/** How outcomes and errors are written into an API Gateway HTTP API response, payload 2.0. */
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { ProviderError } from '../provider/provider-error.ts';
import { problemHeaders, problemOf } from './problem.ts';

export interface Answer {
  readonly status: 200 | 201 | 202 | 204;
  /** The bare body, which a direct invocation returns whatever the status is. */
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What is true of a VM now is not true a moment later. */
const COMMON_HEADERS = { 'cache-control': 'no-store' };

export function httpResponse({ status, body, headers }: Answer): APIGatewayProxyStructuredResultV2 {
  if (status === 204) return { statusCode: status, headers: { ...COMMON_HEADERS, ...headers } };
  return {
    statusCode: status,
    headers: { 'content-type': 'application/json', ...COMMON_HEADERS, ...headers },
    body: JSON.stringify(body),
  };
}

export function problemResponse(error: ProviderError, requestId: string): APIGatewayProxyStructuredResultV2 {
  const problem = problemOf(error, requestId);
  return {
    statusCode: problem.status,
    headers: { ...problemHeaders(error), ...COMMON_HEADERS },
    body: JSON.stringify(problem),
  };
}
