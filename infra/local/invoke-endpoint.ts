/**
 * The Lambda API's Invoke, so that a function can be called directly as on AWS, with `aws lambda invoke
 * --endpoint-url …` or an SDK. https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
 */
import type { FunctionHost } from './function-host.ts';
import type { GatewayRequest } from './http-event-builder.ts';
import type { HttpReply } from './http-reply.ts';

const INVOKE_PATH = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/;

/** The function that a request path invokes, by name, `name:qualifier` or ARN; null for any other request. */
export function matchInvokePath(method: string, path: string): string | null {
  const encoded = method === 'POST' ? INVOKE_PATH.exec(path)?.[1] : undefined;
  if (encoded === undefined) return null;
  try {
    const reference = decodeURIComponent(encoded);
    return (
      /^(?:arn:[^:]*:lambda:[^:]*:[^:]*:function:)?([^:]+)(?::[^:]+)?$/.exec(reference)?.[1] ?? reference
    );
  } catch {
    return encoded;
  }
}

export async function answerInvoke(
  functions: FunctionHost,
  name: string,
  request: GatewayRequest,
): Promise<HttpReply> {
  if (!functions.names.includes(name)) {
    return serviceError(404, 'ResourceNotFoundException', `Function not found: ${name}`);
  }
  const payload = parsePayload(request.body);
  if (!payload.ok) {
    return serviceError(400, 'InvalidRequestContentException', 'Could not parse request body into json');
  }
  switch (request.headers['x-amz-invocation-type'] ?? 'RequestResponse') {
    case 'DryRun':
      return reply(204, {}, '');
    case 'Event':
      // Nobody waits for it, but the host does when it stops.
      void functions.invoke(name, payload.value);
      return reply(202, {}, '');
    case 'RequestResponse':
      break;
    default:
      return serviceError(400, 'InvalidParameterValueException', 'Unknown invocation type');
  }
  const invocation = await functions.invoke(name, payload.value);
  if (invocation.ok) return reply(200, {}, JSON.stringify(invocation.result ?? null));
  const { errorType, errorMessage } = invocation;
  return reply(
    200,
    { 'x-amz-function-error': 'Unhandled' },
    JSON.stringify({ errorType, errorMessage, trace: [] }),
  );
}

/** An invocation without a payload hands the function an empty object. */
function parsePayload(body: Buffer): { readonly ok: true; readonly value: unknown } | { readonly ok: false } {
  if (body.length === 0) return { ok: true, value: {} };
  try {
    return { ok: true, value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) };
  } catch {
    return { ok: false };
  }
}

function serviceError(status: number, type: string, message: string): HttpReply {
  return reply(
    status,
    { 'x-amzn-errortype': type },
    JSON.stringify({ Type: 'User', Message: message, message }),
  );
}

function reply(status: number, headers: Readonly<Record<string, string>>, body: string): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json', 'x-amz-executed-version': '$LATEST', ...headers },
    body: Buffer.from(body, 'utf8'),
  };
}
