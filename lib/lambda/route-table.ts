/** Which route a request path belongs to: shared by the function for unknown routes and the local gateway. */

export interface RoutePattern {
  readonly method: string;
  /** API Gateway's notation: `{host}` is one path segment. */
  readonly path: string;
}

export type RouteMatch<R extends RoutePattern> =
  | { readonly found: true; readonly route: R; readonly parameters: Readonly<Record<string, string>> }
  /** `allow`: the methods that this path does have; none for an unknown path. */
  | { readonly found: false; readonly allow: readonly string[] };

/** Pure. Parameters are left as the path spells them, percent-encoding included, as the gateway hands them on. */
export function matchRoute<R extends RoutePattern>(
  routes: readonly R[],
  method: string,
  path: string,
): RouteMatch<R> {
  const allow = new Set<string>();
  for (const route of routes) {
    const parameters = matchPath(route.path, path);
    if (parameters === null) continue;
    if (route.method === method) return { found: true, route, parameters };
    allow.add(route.method);
  }
  return { found: false, allow: [...allow].sort() };
}

function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const parameters: [string, string][] = [];
  for (const [index, part] of wanted.entries()) {
    const segment = given[index] ?? '';
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    if (name === undefined ? segment !== part : segment === '') return null;
    if (name !== undefined) parameters.push([name, segment]);
  }
  return Object.fromEntries(parameters);
}
