import { describe, expect, it } from 'vitest';
import type { Frame, MessageHeader } from '../../../lib/libvirt/framing.ts';
import { MESSAGE_STATUS, MESSAGE_TYPE } from '../../../lib/libvirt/message.ts';
import { PendingCalls, type Waiter } from '../../../lib/libvirt/pending-calls.ts';
import { procedures, programOf } from '../../../lib/libvirt/protocol.ts';
import { buildRemoteError, remoteError } from '../../../lib/libvirt/remote-error.ts';

const PROCEDURE = 'storageVolUpload';
const refusal = remoteError.encode(buildRemoteError({ code: 38, domain: 18, message: 'full' }));

/** A message of the daemon for the first call. */
function message(header: Partial<MessageHeader>, payload: Uint8Array = new Uint8Array(0)): Frame {
  const { number } = procedures[PROCEDURE];
  const usual = { program: programOf(PROCEDURE), version: 1, procedure: number, serial: 1, status: 0 };
  return { header: { ...usual, type: MESSAGE_TYPE.reply, ...header }, payload };
}

/** One call or stream that waits, and what it heard. */
function waitFor(kind: 'call' | 'stream'): { readonly pending: PendingCalls; readonly heard: string[] } {
  const pending = new PendingCalls();
  const heard: string[] = [];
  const waiter: Waiter = {
    procedure: PROCEDURE,
    onReply: () => heard.push('reply'),
    onError: ({ message: text }) => heard.push(`error: ${text}`),
    ...(kind === 'stream' ? { onPacket: (status: number) => heard.push(`packet ${status}`) } : {}),
  };
  pending.add(pending.nextSerial(), waiter);
  return { pending, heard };
}

describe('who waits for an answer', () => {
  it('waits no longer after a reply, and hears of no second one', () => {
    const { pending, heard } = waitFor('call');

    pending.route(message({}));
    pending.route(message({}));

    expect(heard).toEqual(['reply']);
    expect(pending.size).toBe(0);
  });

  it('waits on after the reply that begins a stream, until it is removed', () => {
    const { pending, heard } = waitFor('stream');

    pending.route(message({}));
    pending.route(message({ type: MESSAGE_TYPE.stream, status: MESSAGE_STATUS.continue }));
    expect(pending.size).toBe(1);
    pending.remove(1);
    pending.route(message({ type: MESSAGE_TYPE.stream, status: MESSAGE_STATUS.ok }));

    expect(heard).toEqual(['reply', 'packet 2']);
    expect(pending.size).toBe(0);
  });

  it.each([
    ['call', MESSAGE_TYPE.reply],
    ['stream', MESSAGE_TYPE.stream],
  ] as const)('hears one error and nothing after it: %s', (kind, type) => {
    const { pending, heard } = waitFor(kind);

    pending.route(message({ type, status: MESSAGE_STATUS.error }, refusal));
    expect(pending.size).toBe(0);
    pending.route(message({ type, status: MESSAGE_STATUS.error }, refusal));
    pending.rejectAll(new Error('over'));

    expect(heard).toEqual(['error: full']);
  });

  it('is still there to hear of the end when its error cannot be read', () => {
    const { pending, heard } = waitFor('call');

    expect(() => pending.route(message({ status: MESSAGE_STATUS.error }, refusal.subarray(0, 8)))).toThrow(
      expect.objectContaining({ name: 'XdrError' }),
    );
    pending.rejectAll(new Error('over'));

    expect(heard).toEqual(['error: over']);
    expect(pending.size).toBe(0);
  });

  it.each([3, 9, -1])('never takes a stream packet of status %i for the stream’s end', (status) => {
    const { pending, heard } = waitFor('stream');
    pending.route(message({}));

    expect(() => pending.route(message({ type: MESSAGE_TYPE.stream, status }))).toThrow(
      `a stream packet of status ${status} for ${PROCEDURE}`,
    );
    expect(heard).toEqual(['reply']);
  });

  it.each([
    ['a packet for a call that is no stream', { type: MESSAGE_TYPE.stream }, /a stream packet of status 0/],
    ['a reply that continues', { status: MESSAGE_STATUS.continue }, /a reply of status 2/],
    ['an answer of another procedure', { procedure: 12 }, /an answer of .*12/],
    ['an answer that nobody asked for', { serial: 2 }, /call 2, which was never made/],
    ['a call', { type: MESSAGE_TYPE.call }, /of type 0/],
  ])('hears nothing of %s, which the connection cannot go on after', (_, header, text) => {
    const { pending, heard } = waitFor('call');

    expect(() => pending.route(message(header))).toThrow(
      expect.objectContaining({ name: 'LibvirtTransportError', message: expect.stringMatching(text) }),
    );
    expect(heard).toEqual([]);
  });
});
