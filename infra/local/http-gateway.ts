/**
 * API Gateway's HTTP API on loopback: real HTTP in, payload 2.0 events to the functions of infra/routes.ts, and their
 * answers out. The Lambda API's Invoke stands beside it. Plain HTTP without authorisation, hence loopback only.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { matchRoute } from '../../lib/lambda/route-table.ts';
import { FALLBACK_FUNCTION, ROUTES } from '../routes.ts';
import type { FunctionHost, Invocation } from './function-host.ts';
import { buildHttpEvent, type GatewayRequest } from './http-event-builder.ts';
import type { HttpReply } from './http-reply.ts';
import { answerInvoke, matchInvokePath } from './invoke-endpoint.ts';

/** API Gateway's limits: what it takes, and how long it waits for a function. */
const MAX_BODY_BYTES = 10 * 1024 * 1024;
const INTEGRATION_TIMEOUT_MS = 30_000;
/** How long connections may stay open when the server stops. */
const CLOSE_GRACE_MS = 2_000;

export interface HttpGateway {
  readonly url: string;
  /** Requests that are being answered get their answer. May be called again. */
  close(): Promise<void>;
}

/** @throws the listening error (EADDRINUSE, EACCES); port 0 takes a free one. */
export async function startHttpGateway(functions: FunctionHost, port: number): Promise<HttpGateway> {
  const server = createServer((incoming, response) => {
    answer(functions, incoming).then(
      (reply) => send(response, reply),
      () => send(response, gatewayError(500, 'Internal Server Error')),
    );
  });
  await listen(server, port);
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${actual}`,
    close: () =>
      new Promise((resolve) => {
        const impatience = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
        server.close(() => {
          clearTimeout(impatience);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

async function answer(functions: FunctionHost, incoming: IncomingMessage): Promise<HttpReply> {
  const body = await readBody(incoming);
  if (body === null) return gatewayError(413, 'Request Entity Too Large');
  const { path, query } = splitTarget(incoming.url ?? '/');
  const request: GatewayRequest = {
    method: incoming.method ?? 'GET',
    path,
    query,
    headers: incoming.headers,
    body,
  };

  const invoked = matchInvokePath(request.method, path);
  if (invoked !== null) return await answerInvoke(functions, invoked, request);

  const match = matchRoute(ROUTES, request.method, path);
  const event = buildHttpEvent(
    request,
    match.found ? match.route : null,
    match.found ? match.parameters : {},
  );
  const invocation = functions.invoke(match.found ? match.route.function : FALLBACK_FUNCTION, event);
  return await withinGatewayTime(invocation.then(replyOf));
}

/** The function's result as the gateway reads it; what is no response of payload 2.0 is the function's defect. */
function replyOf(invocation: Invocation): HttpReply {
  if (!invocation.ok) return gatewayError(500, 'Internal Server Error');
  const { statusCode, headers, body, isBase64Encoded } = Object(invocation.result);
  if (typeof statusCode !== 'number') return gatewayError(500, 'Internal Server Error');
  const bytes = Buffer.from(
    typeof body === 'string' ? body : '',
    isBase64Encoded === true ? 'base64' : 'utf8',
  );
  return { status: statusCode, headers: Object(headers), body: bytes };
}

async function withinGatewayTime(reply: Promise<HttpReply>): Promise<HttpReply> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<HttpReply>((resolve) => {
    timer = setTimeout(() => resolve(gatewayError(503, 'Service Unavailable')), INTEGRATION_TIMEOUT_MS);
  });
  try {
    return await Promise.race([reply, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Errors of the gateway itself look on AWS like this, and not like problem details. */
function gatewayError(status: number, message: string): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ message })),
  };
}

function send(response: ServerResponse, { status, headers, body }: HttpReply): void {
  response.writeHead(status, { ...headers, ...(status !== 204 && { 'content-length': body.byteLength }) });
  response.end(body);
}

/** Null when it is longer than the gateway takes; the rest is read and dropped, so that the answer arrives. */
async function readBody(incoming: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of incoming) {
    length += chunk.length;
    if (length <= MAX_BODY_BYTES) chunks.push(chunk);
    else chunks.length = 0;
  }
  return length <= MAX_BODY_BYTES ? Buffer.concat(chunks) : null;
}

/** By hand, because URL would normalise `..` and `//`, which the gateway's routes see as they are. */
function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const origin = target.replace(/^https?:\/\/[^/?]*/i, '').replace(/#.*$/, '');
  const mark = origin.indexOf('?');
  return mark < 0
    ? { path: origin === '' ? '/' : origin, query: '' }
    : { path: origin.slice(0, mark) || '/', query: origin.slice(mark + 1) };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}
