/**
 * Many calls in flight, but not all at once: libvirtd queues what it cannot serve, and one client with a thousand
 * calls in its queue would push every other client aside.
 */

/**
 * Calls of one session in flight. Enough that neither the round trip nor sshd's delayed acknowledgements count (pairs
 * of calls one at a time: 32 s for 1,000 domains; 64 at once: 0.21 s).
 */
export const IN_FLIGHT = 256;

/** Like `Promise.all(items.map(fn))` with at most `limit` under way; rejects with the first error and starts no more. */
export async function mapBounded<T, R>(
  items: readonly T[],
  limit: number,
  fn: (item: T) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  let next = 0;
  let failed = false;
  const lane = async () => {
    while (next < items.length && !failed) {
      const index = next++;
      try {
        results[index] = await fn(items[index] as T);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return results;
}
