/**
 * Work that outlives a request: the message a create or delete leaves in the queue for the worker. It carries no
 * state, only which incarnation (uuid) of which VM to look at; what is to be done stands in the domain's metadata.
 */

export const WORK_OPS = ['create', 'delete'] as const;
export type WorkOp = (typeof WORK_OPS)[number];

export interface WorkMessage {
  readonly v: 1;
  readonly op: WorkOp;
  readonly host: string;
  readonly name: string;
  readonly uid: string;
  /** The domain's UUID: a name that was deleted and taken again is another incarnation. */
  readonly uuid: string;
  /** How many continuations came before this one; spaces out waits. */
  readonly attempt: number;
  /** Milliseconds since the epoch before which there is nothing to do. */
  readonly notBefore: number;
}

/** SQS's own bound on `DelaySeconds`. */
export const MAX_DELAY_SECONDS = 900;

/**
 * Sends a message; it arrives at least once, not before `delaySeconds` (0–900).
 * Resolves only after the queue has confirmed it.
 */
export type Enqueue = (message: WorkMessage, delaySeconds: number) => Promise<void>;
