/**
 * The gateway's fallback: a request that matches no route gets problem details too, and a known path with another
 * method hears which ones it has.
 */
import type { RoutePattern } from '../lib/lambda/route-table.ts';
import type { FunctionHandler } from '../lib/lambda/runtime.ts';
import { routesOf, unknownRouteFunction } from '../lib/lambda/unknown-route.ts';

export function createHandler(routes: readonly RoutePattern[]): FunctionHandler {
  return unknownRouteFunction(routes);
}

export const handler = createHandler(routesOf(process.env));
