/**
 * Which function answers which request, and which functions no request reaches. The CDK stack and the local gateway
 * are both made from this table, so that a route cannot exist on only one of them.
 */

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** API Gateway's notation: `{host}` is one path segment. */
  readonly path: string;
  readonly function: string;
}

export const ROUTES = [
  { method: 'POST', path: '/instances', function: 'create' },
  { method: 'GET', path: '/instances', function: 'list' },
  { method: 'GET', path: '/instances/{host}/{name}', function: 'get' },
  { method: 'DELETE', path: '/instances/{host}/{name}', function: 'delete' },
  { method: 'GET', path: '/hosts/{host}/health', function: 'doctor' },
] as const satisfies readonly Route[];

/**
 * Answers every request that matches no route (API Gateway: `$default`). Without it the gateway would answer with its
 * own `{"message":"Not Found"}`, which is no problem details document.
 */
export const FALLBACK_FUNCTION = 'not-found';

/** Called by the queue and by the schedule; no HTTP route leads to them. */
export const EVENT_FUNCTIONS = ['worker', 'gc'] as const;

export type ApiFunctionName = (typeof ROUTES)[number]['function'];
export type FunctionName = ApiFunctionName | typeof FALLBACK_FUNCTION | (typeof EVENT_FUNCTIONS)[number];

export const FUNCTION_NAMES: readonly FunctionName[] = [
  ...ROUTES.map((route) => route.function),
  FALLBACK_FUNCTION,
  ...EVENT_FUNCTIONS,
];
