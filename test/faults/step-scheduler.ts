/**
 * Interleavings from a seed. Every step that reaches the daemon waits at a gate; once all clients have come to rest,
 * one of the waiting steps is chosen by the seed and let through. So two workers and a delete meet in every order of
 * their calls sooner or later, and a schedule that fails can be run again.
 */
import { setImmediate } from 'node:timers/promises';
import type { FaultPlan } from '../../infra/local/hypervisor/fault-plan.ts';

/** Event loop turns without a new arrival after which everybody is waiting: a round trip in memory takes fewer. */
const TURNS_AT_REST = 12;

/** mulberry32: small, seeded, good enough to shuffle. Returns numbers in [0, 1). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** How often a client loses its place: rarely enough that it runs on for some calls, often enough to be overtaken. */
const DEMOTION_RATE = 1 / 10;

interface Waiting {
  readonly connection: number;
  readonly release: () => void;
}

/**
 * Runs the operations under the seed's schedule and gives how each ended. Clients have priorities that change now and
 * then, rather than equal chances at every step: two workers in lock step would hardly ever meet the way that one
 * does who sleeps at the wrong moment and wakes up when all the others are done.
 */
export async function runInterleaved(
  faults: FaultPlan,
  random: () => number,
  operations: readonly (() => Promise<unknown>)[],
): Promise<PromiseSettledResult<unknown>[]> {
  const waiting: Waiting[] = [];
  const priorities = new Map<number, number>();
  let arrivals = 0;
  faults.always({
    kind: 'hook',
    hook: ({ connection }) =>
      new Promise<void>((resolve) => {
        arrivals += 1;
        if (!priorities.has(connection)) priorities.set(connection, random());
        waiting.push({ connection, release: resolve });
      }),
  });
  let isDone = false;
  const all = Promise.allSettled(operations.map((run) => run())).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    await comeToRest(() => arrivals);
    const next = highest(waiting, priorities);
    if (next === undefined) continue;
    waiting.splice(waiting.indexOf(next), 1);
    if (random() < DEMOTION_RATE) priorities.set(next.connection, random());
    next.release();
  }
  faults.clear();
  return await all;
}

function highest(waiting: readonly Waiting[], priorities: ReadonlyMap<number, number>): Waiting | undefined {
  const rank = ({ connection }: Waiting): number => priorities.get(connection) ?? 0;
  return waiting.reduce<Waiting | undefined>(
    (best, each) => (best === undefined || rank(each) > rank(best) ? each : best),
    undefined,
  );
}

async function comeToRest(arrivals: () => number): Promise<void> {
  for (let seen = arrivals(), still = 0; still < TURNS_AT_REST; still++) {
    await setImmediate();
    if (arrivals() !== seen) {
      seen = arrivals();
      still = 0;
    }
  }
}
