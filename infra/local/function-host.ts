/**
 * What the Lambda service does around a handler: a context with a clock, a time limit, a request id. The handlers run
 * in this process; what they throw comes back as Lambda reports it.
 */
import { randomUUID } from 'node:crypto';
import type { Context } from 'aws-lambda';
import type { FunctionHandler } from '../../lib/lambda/runtime.ts';

/** As in the CDK stack: the request functions answer before the gateway gives up, the others get Lambda's longest. */
const REQUEST_TIMEOUT_MS = 28_000;
const LONG_TIMEOUT_MS = 15 * 60_000;
const LONG_FUNCTIONS: readonly string[] = ['worker', 'gc'];

export type Invocation =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly errorType: string; readonly errorMessage: string };

export interface FunctionHost {
  readonly names: readonly string[];
  /** Never throws. Any number at once, as Lambda would start as many sandboxes. */
  invoke(name: string, event: unknown): Promise<Invocation>;
  /** Resolves when nothing runs any more. */
  idle(): Promise<void>;
}

export function createFunctionHost(handlers: ReadonlyMap<string, FunctionHandler>): FunctionHost {
  const running = new Set<Promise<Invocation>>();
  return {
    names: [...handlers.keys()],
    invoke: async (name, event) => {
      const handler = handlers.get(name);
      if (handler === undefined) return failure('ResourceNotFoundException', `there is no function ${name}`);
      const limitMs = LONG_FUNCTIONS.includes(name) ? LONG_TIMEOUT_MS : REQUEST_TIMEOUT_MS;
      const invocation = run(name, handler, throughJson(event ?? null), limitMs);
      running.add(invocation);
      try {
        return await invocation;
      } finally {
        running.delete(invocation);
      }
    },
    idle: async () => {
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** As on AWS: a handler can keep neither the caller's object nor a class of its own. */
function throughJson(event: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(event));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // Nested too deeply to be written, though not to be read: it was parsed from a payload, and the function refuses it.
    return event;
  }
}

async function run(
  name: string,
  handler: FunctionHandler,
  event: unknown,
  limitMs: number,
): Promise<Invocation> {
  const context = createContext(name, Date.now() + limitMs);
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<Invocation>((resolve) => {
    const message = `RequestId: ${context.awsRequestId} Error: Task timed out after ${limitMs / 1000} seconds`;
    timer = setTimeout(() => resolve(failure('Sandbox.Timedout', message)), limitMs);
  });
  try {
    return await Promise.race([handle(handler, event, context), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

async function handle(handler: FunctionHandler, event: unknown, context: Context): Promise<Invocation> {
  try {
    return { ok: true, result: await handler(event, context) };
  } catch (error) {
    if (!(error instanceof Error)) return failure('Error', String(error));
    return failure(error.name, error.message);
  }
}

function failure(errorType: string, errorMessage: string): Invocation {
  return { ok: false, errorType, errorMessage };
}

function createContext(name: string, endsAt: number): Context {
  return {
    callbackWaitsForEmptyEventLoop: false,
    functionName: name,
    functionVersion: '$LATEST',
    invokedFunctionArn: `arn:aws:lambda:local:000000000000:function:${name}`,
    memoryLimitInMB: '1024',
    awsRequestId: randomUUID(),
    logGroupName: `/aws/lambda/${name}`,
    logStreamName: 'local',
    getRemainingTimeInMillis: () => Math.max(0, endsAt - Date.now()),
    done: () => undefined,
    fail: () => undefined,
    succeed: () => undefined,
  };
}
