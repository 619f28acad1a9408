/**
 * Small files of a guest, through its agent: guest-file-open, -read, -close. These three are less than `guest-exec`, by
 * which the same could be asked of a program: nothing is started in the guest, and an operator who denies the agent
 * guest-exec can still permit them.
 */
import type { DomainHandle } from '../libvirt/objects.ts';
import { type AgentAnswer, commandAgent, type NoAnswer } from './agent-command.ts';
import type { HostSession } from './host-session.ts';
import { isRecord } from './untrusted-json.ts';

/** `refused` to an open is mostly a file that is not there; the agent's reason is in its words alone. */
export type GuestFile = { readonly kind: 'file'; readonly bytes: Uint8Array } | { readonly kind: NoAnswer };

/** Files longer than this are none that is asked for here. */
export const MAX_GUEST_FILE_BYTES = 64 * 1024;
/** An agent may answer with less than it was asked for, but not for ever. */
const MAX_READS = 4;
/** The agent's own limit and a round trip: an open that is given up may still leave a handle that nobody knows. */
const OPEN_NEEDS_MS = 1_500;
/** What closing may take when the time is up: a handle that is left open stays so until the agent is restarted. */
const CLOSE_LIMIT_MS = 500;

export interface GuestFileReader {
  /** A whole file. */
  read(path: string): Promise<GuestFile>;
  /** Whether the file can be opened. */
  exists(path: string): Promise<AgentAnswer['kind']>;
}

/**
 * @param leftMs what is left for the questions, at each of them; 0 or less means that none is asked any more.
 * Its methods throw only what ends the session.
 */
export function guestFiles(session: HostSession, dom: DomainHandle, leftMs: () => number): GuestFileReader {
  const ask = async (execute: string, args: Readonly<Record<string, unknown>>): Promise<AgentAnswer> => {
    const timeoutMs = leftMs();
    if (timeoutMs <= 0) return { kind: 'silent' };
    return commandAgent(session, dom, { execute, arguments: args }, timeoutMs);
  };

  const whileOpen = async <T>(
    path: string,
    use: (handle: number) => Promise<T>,
  ): Promise<T | { readonly kind: NoAnswer }> => {
    if (leftMs() < OPEN_NEEDS_MS) return { kind: 'silent' };
    const opened = await ask('guest-file-open', { path, mode: 'r' });
    if (opened.kind !== 'answer') return { kind: opened.kind };
    const handle = opened.value;
    if (typeof handle !== 'number' || !Number.isSafeInteger(handle)) return { kind: 'nonsense' };
    try {
      return await use(handle);
    } finally {
      const timeoutMs = Math.max(leftMs(), CLOSE_LIMIT_MS);
      await commandAgent(session, dom, { execute: 'guest-file-close', arguments: { handle } }, timeoutMs);
    }
  };

  return {
    read: (path) =>
      whileOpen(path, async (handle): Promise<GuestFile> => {
        const parts: Uint8Array[] = [];
        let bytes = 0;
        for (let reads = 0; reads < MAX_READS; reads++) {
          const answer = await ask('guest-file-read', { handle, count: MAX_GUEST_FILE_BYTES });
          if (answer.kind !== 'answer') return { kind: answer.kind };
          const part = readPart(answer.value);
          if (part === null) return { kind: 'nonsense' };
          parts.push(part.bytes);
          bytes += part.bytes.length;
          if (bytes > MAX_GUEST_FILE_BYTES) return { kind: 'nonsense' };
          if (part.isLast) return { kind: 'file', bytes: Buffer.concat(parts) };
        }
        return { kind: 'nonsense' };
      }),
    exists: async (path) =>
      (await whileOpen(path, async (): Promise<AgentAnswer> => ({ kind: 'answer', value: true }))).kind,
  };
}

/** `{ count, buf-b64, eof }`. */
function readPart(value: unknown): { readonly bytes: Uint8Array; readonly isLast: boolean } | null {
  if (!isRecord(value)) return null;
  const { 'buf-b64': text, eof } = value;
  if (typeof text !== 'string' || typeof eof !== 'boolean') return null;
  return { bytes: Buffer.from(text, 'base64'), isLast: eof };
}
