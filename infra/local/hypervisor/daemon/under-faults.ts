/** Carries one step out under the faults planned for it. What the daemon did and what its client learns come apart here. */
import type { Fault, FaultPlan } from '../fault-plan.ts';
import { DaemonError, ERROR_DOMAIN } from './daemon-error.ts';

export type Outcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'failed'; readonly error: unknown }
  /** The client is to hear nothing. */
  | { readonly kind: 'silence' }
  /** The client is to lose its connection. */
  | { readonly kind: 'cut' };

/** Never rejects unless a hook does. */
export async function underFaults<T>(
  { step, faults }: ReturnType<FaultPlan['next']>,
  sleep: (ms: number) => Promise<void>,
  execute: () => T | Promise<T>,
): Promise<Outcome<T>> {
  for (const fault of faults) {
    if (fault.kind === 'hook') {
      await fault.hook(step);
    } else if (fault.kind === 'delay') {
      await sleep(fault.ms);
    }
  }
  const isPlanned = (kind: Fault['kind']): boolean => faults.some((fault) => fault.kind === kind);
  if (isPlanned('cut-before')) {
    return { kind: 'cut' };
  }
  const outcome = await attempt(() => {
    throwPlanned(faults);
    return execute();
  });
  if (isPlanned('cut-after')) {
    return { kind: 'cut' };
  }
  return isPlanned('no-answer') ? { kind: 'silence' } : outcome;
}

async function attempt<T>(execute: () => T | Promise<T>): Promise<Outcome<T>> {
  try {
    return { kind: 'done', value: await execute() };
  } catch (error) {
    return { kind: 'failed', error };
  }
}

function throwPlanned(faults: readonly Fault[]): void {
  for (const fault of faults) {
    if (fault.kind === 'error') {
      throw new DaemonError({
        code: fault.code,
        domain: fault.domain ?? ERROR_DOMAIN.qemu,
        int1: fault.int1 ?? -1,
        message: fault.message ?? `planned error ${fault.code}`,
      });
    }
  }
}
