/**
 * What is to go wrong, and when: by call number (the order in which the daemon receives calls, over all connections) or
 * by procedure. Calls are counted and logged whether or not a fault is planned, so that a suite can first count the calls
 * of an operation and then cut it at each of them.
 */
import type { ProcedureName } from '../../../lib/libvirt/protocol.ts';

/**
 * One step the daemon is asked to do. Every RPC call is one, also the first connectOpen and the last connectClose; the
 * end of an upload is one of its own (`storageVolUpload:finish`), since it is a second thing that can be lost. Data
 * packets (`storageVolUpload:data`) have no number, but faults by procedure match them.
 */
export type StepName = ProcedureName | 'storageVolUpload:finish' | 'storageVolUpload:data' | 'unknown';

export interface Step {
  readonly name: StepName;
  /** From 1, over all connections, since the plan was made or reset; undefined for data packets. */
  readonly number: number | undefined;
  /** From 1, by connection. */
  readonly connection: number;
  /** The decoded arguments of a call. */
  readonly args?: unknown;
}

export type Fault =
  /** Answers with this error instead of executing. */
  | {
      readonly kind: 'error';
      readonly code: number;
      readonly domain?: number;
      readonly int1?: number;
      readonly message?: string;
    }
  /** The connection is gone before anything happened. */
  | { readonly kind: 'cut-before' }
  /** It happened, and the connection is gone before the answer. */
  | { readonly kind: 'cut-after' }
  /** It happened, and the answer never comes. */
  | { readonly kind: 'no-answer' }
  /** Waits first, then executes. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Runs something at this point, then executes. */
  | { readonly kind: 'hook'; readonly hook: (step: Step) => void | Promise<void> };

interface Rule {
  readonly matches: (step: Step, occurrence: number) => boolean;
  readonly fault: Fault;
}

export class FaultPlan {
  #rules: Rule[] = [];
  #log: Step[] = [];
  #calls = 0;
  #occurrences = new Map<StepName, number>();

  /** Steps in the order received, data packets not among them. */
  get log(): readonly Step[] {
    return this.#log;
  }

  /** How many numbered steps there were. */
  get calls(): number {
    return this.#calls;
  }

  /** The names in `log`. */
  get procedures(): StepName[] {
    return this.#log.map((step) => step.name);
  }

  /** At the step with this number, from 1. */
  atCall(number: number, fault: Fault): this {
    return this.#add((step) => step.number === number, fault);
  }

  /** At the nth step of this name, from 1, or at every one. */
  at(name: StepName, fault: Fault, nth: number | 'every' = 1): this {
    return this.#add(
      (step, occurrence) => step.name === name && (nth === 'every' || occurrence === nth),
      fault,
    );
  }

  /** At every step that is so, for what depends on a call's arguments. */
  when(matches: (step: Step) => boolean, fault: Fault): this {
    return this.#add(matches, fault);
  }

  /** Before every step; for schedules that let calls of several clients overtake one another. */
  always(fault: Fault): this {
    return this.#add(() => true, fault);
  }

  /** Takes the faults back; counters and log go on. */
  clear(): void {
    this.#rules = [];
  }

  /** Takes the faults back and starts counting anew. */
  reset(): void {
    this.clear();
    this.#log = [];
    this.#calls = 0;
    this.#occurrences.clear();
  }

  /** For the daemon: counts the step and says what is to go wrong with it. */
  next(step: Omit<Step, 'number'>): { readonly step: Step; readonly faults: readonly Fault[] } {
    const isNumbered = step.name !== 'storageVolUpload:data';
    const occurrence = (this.#occurrences.get(step.name) ?? 0) + 1;
    this.#occurrences.set(step.name, occurrence);
    if (isNumbered) {
      this.#calls += 1;
    }
    const counted: Step = { ...step, number: isNumbered ? this.#calls : undefined };
    if (isNumbered) {
      this.#log.push(counted);
    }
    const faults = this.#rules.filter((rule) => rule.matches(counted, occurrence)).map((rule) => rule.fault);
    return { step: counted, faults };
  }

  #add(matches: Rule['matches'], fault: Fault): this {
    this.#rules.push({ matches, fault });
    return this;
  }
}
