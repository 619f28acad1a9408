/**
 * What the functions that answer their caller share: either way in becomes the same bare input, is checked whole
 * before anything is dialled, and the outcome or the error goes back the way the request came.
 */
import middy, { type MiddlewareObj } from '@middy/core';
import type * as z from 'zod';
import type { Config } from '../config/schema.ts';
import type { Fault } from '../provider/provider-error.ts';
import { type Answer, httpResponse, problemResponse } from './http-answer.ts';
import type { HttpRequest } from './http-event.ts';
import { Invocation } from './invocation.ts';
import { observe } from './observe.ts';
import { asProviderError, InvocationError } from './problem.ts';
import { withProvider } from './provider-session.ts';
import { RefusedRequest } from './refused-request.ts';
import type { FleetProvider, FunctionHandler, Runtime } from './runtime.ts';
import { validate } from './validation.ts';

/** The bare input as an HTTP request spells it, with what was already wrong in the spelling. */
export interface HttpInput {
  readonly input: unknown;
  readonly faults: readonly Fault[];
  /** Where a field of the bare input stands in the HTTP request; the identity for a JSON body. */
  readonly place: (pointer: string) => string;
}

export interface ApiFunction<Input, Ask> {
  readonly operation: 'create' | 'get' | 'list' | 'delete' | 'gc' | 'doctor';
  readonly schema: z.ZodType<Input>;
  /** Absent for a function without a route. */
  readonly fromHttp?: (request: HttpRequest) => HttpInput;
  /** Faults that depend on the deployment, found on the raw input so that they join those of its shape. */
  readonly check?: (input: unknown, config: Config) => readonly Fault[];
  /** From the checked input to what the provider is asked. @throws ProviderError for what no host need be asked. */
  readonly prepare: (input: Input, config: Config) => Ask;
  readonly run: (provider: FleetProvider, ask: Ask) => Promise<Answer>;
}

export function apiFunction<Input, Ask>(
  runtime: Runtime,
  definition: ApiFunction<Input, Ask>,
): FunctionHandler {
  const handle = async (event: unknown): Promise<unknown> => {
    if (!(event instanceof Invocation)) throw new TypeError('the observing middleware must come first');
    const config = await runtime.config();
    const ask = definition.prepare(readInput(event, definition, config), config);
    return await withProvider(runtime, event, false, (provider) => definition.run(provider, ask));
  };
  // No early timeout of middy's: it would answer while the sessions are still open.
  return middy<unknown, unknown>(handle, { timeoutEarlyInMillis: 0 })
    .use(answerAsAsked())
    .use(observe(runtime, { operation: definition.operation }));
}

/** @throws RefusedRequest with every fault of spelling, shape and deployment. */
function readInput<Input>(
  invocation: Invocation,
  definition: Pick<ApiFunction<Input, never>, 'schema' | 'fromHttp' | 'check'>,
  config: Config,
): Input {
  const { input, faults, place }: HttpInput =
    invocation.http === null || definition.fromHttp === undefined
      ? { input: invocation.event, faults: [], place: (pointer) => pointer }
      : definition.fromHttp(invocation.http);
  const validated = validate(definition.schema, input);
  const misspelt = new Set(faults.map((fault) => fault.pointer));
  const found = [
    ...faults,
    ...(validated.ok ? [] : validated.faults)
      .map((fault) => ({ ...fault, pointer: place(fault.pointer) }))
      .filter((fault) => !misspelt.has(fault.pointer)),
    ...(definition.check?.(input, config) ?? []),
  ];
  if (validated.ok && found.length === 0) return validated.value;
  throw new RefusedRequest(found);
}

function answerAsAsked(): MiddlewareObj<unknown, unknown> {
  return {
    after: (request) => {
      const { event, response } = request;
      if (!(event instanceof Invocation) || !isAnswer(response)) return;
      request.response = event.http === null ? response.body : httpResponse(response);
    },
    onError: (request) => {
      const error = asProviderError(request.error);
      if (!(request.event instanceof Invocation) || request.event.http === null) {
        // Set, not thrown: middy would hang the original on what is thrown here, and the runtime logs all of it.
        request.error = new InvocationError(error);
        return;
      }
      request.response = problemResponse(error, request.event.requestId);
    },
  };
}

function isAnswer(value: unknown): value is Answer {
  return typeof value === 'object' && value !== null && 'status' in value && 'body' in value;
}
