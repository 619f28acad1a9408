/**
 * Whether cloud-init in a guest is done, from the files by which cloud-init itself tells it (docs/decisions/0005). It has a
 * deadline of its own, so that a guest which answers slowly, or never, costs a `get` no more than that.
 */
import type { DomainHandle } from '../libvirt/objects.ts';
import type { Readiness } from '../provider/instance.ts';
import { commandAgent } from './agent-command.ts';
import { readCloudInitStatus, UNREADABLE } from './cloud-init-status.ts';
import { type GuestFileReader, guestFiles } from './guest-file.ts';
import type { HostSession } from './host-session.ts';
import { isRecord } from './untrusted-json.ts';

/** For all questions together: five to a guest that is done, each answered within a second or not at all. */
const READINESS_LIMIT_MS = 3_000;

const RUN_DIRECTORY = '/run/cloud-init';

export interface SeenReadiness extends Readiness {
  /** cloud-init is over in this boot and used its seed, whatever came of it: it reads it no more before the next one. */
  readonly isSeedUsed: boolean;
}

export const NO_AGENT: SeenReadiness = unknown('the guest’s agent does not answer');

/**
 * Asks an active guest whose agent's waits are limited already (`limitAgentWait`).
 *
 * @throws only what ends the session.
 */
export async function seeReadiness(session: HostSession, dom: DomainHandle): Promise<SeenReadiness> {
  const until = performance.now() + READINESS_LIMIT_MS;
  const leftMs = () => until - performance.now();
  const files = guestFiles(session, dom, leftMs);
  // The result first: a boot that ends between the two questions is then seen as running, never as done without its errors.
  const result = await files.exists(`${RUN_DIRECTORY}/result.json`);
  if (result === 'silent') return NO_AGENT;
  const status = await files.read(`${RUN_DIRECTORY}/status.json`);
  switch (status.kind) {
    case 'file':
      return readCloudInitStatus(new TextDecoder().decode(status.bytes), result === 'answer');
    case 'silent':
      return NO_AGENT;
    case 'nonsense':
      return UNREADABLE;
    case 'refused':
      return explainRefusal(session, dom, files, leftMs);
  }
}

/** An agent gives its reason in words only, which are not matched on: it is asked what it permits. */
async function explainRefusal(
  session: HostSession,
  dom: DomainHandle,
  files: GuestFileReader,
  leftMs: () => number,
): Promise<SeenReadiness> {
  const timeoutMs = leftMs();
  if (timeoutMs <= 0) return NO_AGENT;
  const info = await commandAgent(session, dom, { execute: 'guest-info' }, timeoutMs);
  if (info.kind === 'silent') return NO_AGENT;
  if (info.kind === 'refused') {
    return unknown(
      `the guest’s agent does not let cloud-init’s status be read, and does not permit guest-info, which tells why: allow it ${IN_ITS_CONFIGURATION}`,
    );
  }
  const denied = info.kind === 'answer' ? deniedOf(info.value) : [];
  if (denied.length > 0) {
    return unknown(
      `the guest’s agent does not permit ${denied.join(', ')}: allow them ${IN_ITS_CONFIGURATION}`,
    );
  }
  const disabled = await files.exists(`${RUN_DIRECTORY}/disabled`);
  if (disabled === 'answer') {
    return { cloudInit: 'disabled', detail: 'cloud-init is switched off in the guest', isSeedUsed: false };
  }
  return unknown('cloud-init has left no status in the guest: it has not begun, or is not installed');
}

const IN_ITS_CONFIGURATION = 'in its configuration (qemu-ga, block-rpcs or allow-rpcs)';
const NEEDED = ['guest-file-open', 'guest-file-read', 'guest-file-close'] as const;

/** `{ supported_commands: [{ name, enabled }] }`. */
function deniedOf(value: unknown): readonly string[] {
  const commands = isRecord(value) ? value['supported_commands'] : undefined;
  if (!Array.isArray(commands)) return [];
  return NEEDED.filter((name) =>
    commands.some((command) => isRecord(command) && command['name'] === name && command['enabled'] === false),
  );
}

function unknown(detail: string): SeenReadiness {
  return { cloudInit: 'unknown', detail, isSeedUsed: false };
}
