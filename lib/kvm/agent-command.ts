/**
 * Commands to a guest's own agent (virDomainQemuAgentCommand). A guest is not to be believed: what it answers is bounded
 * before it is read, and none of its words go further. The first command after a start taints the domain in libvirt's
 * log (`custom-ga-command`), which changes nothing else.
 */
import { ERROR_CODE, LibvirtError, LibvirtTimeoutError } from '../libvirt/errors.ts';
import type { DomainHandle } from '../libvirt/objects.ts';
import type { HostSession } from './host-session.ts';
import { isRecord, parseJson } from './untrusted-json.ts';

/**
 * Seconds. Without it the first call to a stopped agent did not return in 50 s and occupied one of the daemon's
 * workers meanwhile; a daemon that cannot limit the wait is therefore not asked at all.
 */
const AGENT_RESPONSE_SECONDS = 1;

/** 64 KiB in base64 and what stands around it; more than any command here can rightly answer. */
const MAX_ANSWER_CHARACTERS = 128 * 1024;

/** Before the first question to a domain's agent in a session. @throws LibvirtError when the daemon cannot (before 5.10). */
export async function limitAgentWait(session: HostSession, dom: DomainHandle): Promise<void> {
  await session.call('domainAgentSetResponseTimeout', { dom, timeout: AGENT_RESPONSE_SECONDS, flags: 0 });
}

/** Why there is no answer to go by: the agent said no, did not answer, or answered what it was not asked. */
export type NoAnswer = 'refused' | 'silent' | 'nonsense';

export type AgentAnswer = { readonly kind: 'answer'; readonly value: unknown } | { readonly kind: NoAnswer };

/**
 * One command, one at a time for each domain: libvirt lets no second caller at an agent, and a caller that waits holds
 * one of the daemon's workers.
 *
 * @throws only what ends the session; whatever a guest may do is an answer.
 */
export async function commandAgent(
  session: HostSession,
  dom: DomainHandle,
  command: { readonly execute: string; readonly arguments?: Readonly<Record<string, unknown>> },
  timeoutMs: number,
): Promise<AgentAnswer> {
  const args = { dom, cmd: JSON.stringify(command), timeout: AGENT_RESPONSE_SECONDS, flags: 0 };
  try {
    const { result } = await session.call('domainAgentCommand', args, { timeoutMs });
    return readAnswer(result);
  } catch (error) {
    if (error instanceof LibvirtTimeoutError) return { kind: 'silent' };
    if (!(error instanceof LibvirtError)) throw error;
    // What the agent answers with an error is an internal one to libvirt; a code of its own says that nobody answered.
    return { kind: error.code === ERROR_CODE.internalError ? 'refused' : 'silent' };
  }
}

function readAnswer(text: string | null): AgentAnswer {
  if (text === null || text.length > MAX_ANSWER_CHARACTERS) return { kind: 'nonsense' };
  const answer = parseJson(text);
  return isRecord(answer) && Object.hasOwn(answer, 'return')
    ? { kind: 'answer', value: answer['return'] }
    : { kind: 'nonsense' };
}
