/** What a request to no route is told. The table of routes is passed in: on AWS it comes with the environment. */
import * as z from 'zod';
import { problemResponse } from './http-answer.ts';
import { isHttpEvent, readHttpEvent } from './http-event.ts';
import { InvocationError } from './problem.ts';
import { RefusedRequest } from './refused-request.ts';
import { matchRoute, type RoutePattern } from './route-table.ts';
import type { FunctionHandler } from './runtime.ts';

const routeTable = z.array(z.object({ method: z.string(), path: z.string() }));

/** `KVM_FUNCTIONS_ROUTES`: the table as JSON. Without it every request is simply unknown. */
export function routesOf(environment: NodeJS.ProcessEnv): readonly RoutePattern[] {
  return routeTable.parse(JSON.parse(environment['KVM_FUNCTIONS_ROUTES'] ?? '[]'));
}

/** Needs no host, no secret and no configuration. */
export function unknownRouteFunction(routes: readonly RoutePattern[]): FunctionHandler {
  return async (event, context) => {
    if (!isHttpEvent(event)) throw new InvocationError(refuse(routes, '', ''));
    const { method, rawPath } = readHttpEvent(event);
    return problemResponse(refuse(routes, method, rawPath), context?.awsRequestId ?? 'unknown');
  };
}

function refuse(routes: readonly RoutePattern[], method: string, path: string): RefusedRequest {
  const match = matchRoute(routes, method, path);
  if (match.found || match.allow.length === 0) {
    return new RefusedRequest([], {
      kind: 'not-found',
      title: 'There is no such route',
      detail: 'no route has this method and path',
    });
  }
  const allow = match.allow.join(', ');
  return new RefusedRequest([], {
    status: 405,
    title: 'The method is not allowed',
    detail: `this path has only ${allow}`,
    headers: { allow },
  });
}
