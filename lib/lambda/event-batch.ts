/**
 * An SQS event as its records, checked before any is worked on: a response that names an empty or unknown message id
 * makes the event source retry the whole batch, so an event that cannot be answered record by record is thrown back.
 */
import * as z from 'zod';
import { DNS_LABEL } from '../config/names.ts';
import { WORK_OPS, type WorkMessage } from '../provider/work.ts';
import { requestUid } from './request-schema.ts';

export interface QueueRecord {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  /** How often this message was received, this time included; at least 1. */
  readonly receiveCount: number;
}

export interface BatchResponse {
  readonly batchItemFailures: readonly { readonly itemIdentifier: string }[];
}

const sqsEvent = z.object({
  Records: z.array(
    z.object({
      messageId: z.string().min(1),
      receiptHandle: z.string().min(1),
      body: z.string(),
      attributes: z.object({ ApproximateReceiveCount: z.string().optional() }).optional(),
    }),
  ),
});

const workMessage = z.strictObject({
  v: z.literal(1),
  op: z.enum(WORK_OPS),
  host: z.string().min(1),
  name: z.string().regex(DNS_LABEL),
  uid: requestUid,
  uuid: z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  attempt: z.int().min(0),
  notBefore: z.number().min(0),
});

/** @throws TypeError for anything but an SQS event whose every record can be answered by its own id. */
export function readBatch(event: unknown): readonly QueueRecord[] {
  const parsed = sqsEvent.safeParse(event);
  if (!parsed.success) throw new TypeError(`not an SQS event: ${z.prettifyError(parsed.error)}`);
  const records = parsed.data.Records.map(({ messageId, receiptHandle, body, attributes }) => ({
    messageId,
    receiptHandle,
    body,
    receiveCount: Math.max(1, Number(attributes?.ApproximateReceiveCount) || 1),
  }));
  if (new Set(records.map(({ messageId }) => messageId)).size < records.length) {
    throw new TypeError('not an SQS event: two records carry the same message id');
  }
  return records;
}

/** Null for a body that no version of ours has written: it is for the dead-letter queue, where somebody looks. */
export function readWorkMessage(body: string): WorkMessage | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  return workMessage.safeParse(value).data ?? null;
}
