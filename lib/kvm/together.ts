/** Steps that do not need one another, under way at once: on a line of 30 ms each round trip that is not waited for counts. */

/**
 * Like `Promise.all`, but never rejects while one of the steps is still at work on the host: what follows a failure (the
 * taking back of a create) must not be overtaken by it.
 * @throws the failure of the first in the list that failed
 */
export async function together<const T extends readonly (Promise<unknown> | undefined)[]>(
  steps: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(steps);
  return Promise.all(steps) as Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }>;
}
