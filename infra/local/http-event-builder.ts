/** A request as API Gateway's HTTP API describes it to a function: payload format 2.0. */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Route } from '../routes.ts';

export interface GatewayRequest {
  readonly method: string;
  /** As it was sent, percent-encoding included. */
  readonly path: string;
  /** Without the question mark. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/**
 * @param route null for the `$default` route.
 * @param parameters as the path spells them: the gateway decodes the raw path and not its parameters.
 */
export function buildHttpEvent(
  { method, path, query, headers, body }: GatewayRequest,
  route: Route | null,
  parameters: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const { cookie, ...fields } = headers;
  const rawPath = decodePath(path);
  return {
    version: '2.0',
    routeKey: route === null ? '$default' : `${route.method} ${route.path}`,
    rawPath,
    rawQueryString: query,
    ...(cookie !== undefined && { cookies: cookie.split(/; */) }),
    headers: joinDuplicates(fields),
    ...(query !== '' && { queryStringParameters: joinQuery(query) }),
    ...(Object.keys(parameters).length > 0 && { pathParameters: parameters }),
    requestContext: {
      accountId: '000000000000',
      apiId: 'local',
      domainName: 'localhost',
      domainPrefix: 'local',
      http: {
        method,
        path: rawPath,
        protocol: 'HTTP/1.1',
        sourceIp: '127.0.0.1',
        userAgent: fields['user-agent'] ?? '',
      },
      requestId: randomUUID(),
      routeKey: route === null ? '$default' : `${route.method} ${route.path}`,
      stage: '$default',
      time: new Date().toISOString(),
      timeEpoch: Date.now(),
    },
    ...encodeBody(body, fields['content-type']),
  };
}

/** Text types travel as text, everything else in base64. Damaged UTF-8 would not survive as text, so it does too. */
function encodeBody(body: Buffer, contentType: string | undefined): Record<string, unknown> {
  if (body.length === 0) return { isBase64Encoded: false };
  const isTextType =
    contentType === undefined ||
    /^(?:text\/|application\/(?:json|javascript|xml|[^;]+\+(?:json|xml)))/i.test(contentType);
  const text = body.toString('utf8');
  return isTextType && Buffer.from(text, 'utf8').equals(body)
    ? { body: text, isBase64Encoded: false }
    : { body: body.toString('base64'), isBase64Encoded: true };
}

function joinDuplicates(headers: Omit<IncomingHttpHeaders, 'cookie'>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(',') : String(value)]],
    ),
  );
}

/** The gateway joins the values of a repeated name with commas, so that `a=1,2` and `a=1&a=2` look alike here. */
function joinQuery(query: string): Record<string, string> {
  const values = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(query)) {
    const earlier = values.get(name);
    values.set(name, earlier === undefined ? value : `${earlier},${value}`);
  }
  return Object.fromEntries(values);
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
