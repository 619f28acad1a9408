/** What is asked of the guest: to shut down, its addresses, its agent's commands. Only the agent can keep a caller waiting. */
import {
  AGENT_RESPONSE_TIMEOUT,
  DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
  DOMAIN_SHUTDOWN_GUEST_AGENT,
  INTERFACE_ADDRESSES_SRC,
} from '../../../../lib/libvirt/constants.ts';
import type { DomainHandle } from '../../../../lib/libvirt/objects.ts';
import { AgentRefusal, answerAgent } from '../state/agent-commands.ts';
import { hasAgentChannel } from '../state/domain-devices.ts';
import type { Domain, DomainRun } from '../state/domain-store.ts';
import { agentInterfaces, arpInterfaces } from '../state/guest-interfaces.ts';
import type { HostState } from '../state/host-state.ts';
import {
  agentUnresponsive,
  argumentUnsupported,
  checkFlags,
  ERROR_DOMAIN,
  internalError,
  invalidArgument,
  operationInvalid,
  operationTimeout,
} from './daemon-error.ts';
import { domainOf } from './domain-procedures.ts';
import type { Caller, Handlers } from './handler.ts';

/** How long libvirt's QEMU driver waits for a domain that is busy with another caller. */
const JOB_WAIT_MS = 30_000;
const SHUTDOWN_FLAGS = 0x1f;

export const guestProcedures: Handlers<
  | 'domainShutdown'
  | 'domainShutdownFlags'
  | 'domainInterfaceAddresses'
  | 'domainAgentSetResponseTimeout'
  | 'domainAgentCommand'
> = {
  domainShutdown: ({ dom }, caller) => shutDown(dom, 0, caller),
  domainShutdownFlags: ({ dom, flags }, caller) => shutDown(dom, flags, caller),
  domainInterfaceAddresses: async ({ dom, source, flags }, caller) => {
    checkFlags(flags, 0, 'qemuDomainInterfaceAddresses', ERROR_DOMAIN.qemu);
    const domain = domainOf(caller.host, dom);
    const run = running(domain, ERROR_DOMAIN.domain);
    switch (source) {
      case INTERFACE_ADDRESSES_SRC.lease:
        // Leases are those of libvirt's own networks; a bridge of the host has none.
        return { ifaces: [] };
      case INTERFACE_ADDRESSES_SRC.arp:
        return { ifaces: arpInterfaces(caller.host, run) };
      case INTERFACE_ADDRESSES_SRC.agent:
        await askAgent(caller, domain, run);
        return { ifaces: agentInterfaces(caller.host, run) };
      default:
        throw argumentUnsupported(ERROR_DOMAIN.qemu, `Unknown IP address data source ${source}`);
    }
  },
  domainAgentSetResponseTimeout: ({ dom, timeout, flags }, { host }) => {
    checkFlags(flags, 0, 'qemuDomainAgentSetResponseTimeout', ERROR_DOMAIN.qemu);
    if (timeout < AGENT_RESPONSE_TIMEOUT.block) {
      throw invalidArgument(
        ERROR_DOMAIN.qemu,
        `guest agent timeout '${timeout}' is less than the minimum '-2'`,
      );
    }
    domainOf(host, dom).agentTimeout = timeout;
    return { result: 0 };
  },
  domainAgentCommand: async ({ dom, cmd, flags }, caller) => {
    checkFlags(flags, 0, 'qemuDomainQemuAgentCommand', ERROR_DOMAIN.qemu);
    const domain = domainOf(caller.host, dom);
    const run = running(domain, ERROR_DOMAIN.qemu);
    await askAgent(caller, domain, run);
    try {
      return { result: answerAgent(run.guest, caller.host.now(), cmd) };
    } catch (error) {
      throw error instanceof AgentRefusal ? internalError(ERROR_DOMAIN.qemu, error.message) : error;
    }
  },
};

/** Both ways only ask: the guest goes off by itself a moment later. */
async function shutDown(dom: DomainHandle, flags: number, caller: Caller): Promise<void> {
  checkFlags(flags, SHUTDOWN_FLAGS, 'qemuDomainShutdownFlags', ERROR_DOMAIN.qemu);
  const { host } = caller;
  const domain = domainOf(host, dom);
  const run = running(domain, ERROR_DOMAIN.qemu);
  const isAgentPossible = hasAgentChannel(run.definition.rest) && isAgentConnected(host, run);
  const byAgent =
    (flags & DOMAIN_SHUTDOWN_GUEST_AGENT) !== 0 &&
    (isAgentPossible || (flags & DOMAIN_SHUTDOWN_ACPI_POWER_BTN) === 0);
  if (byAgent) {
    await askAgent(caller, domain, run);
  }
  // A firmware or a kernel that is still booting does not see the power button.
  if (host.now() >= run.guest.bootedAt && run.guest.honoursPowerButton) {
    run.offAt ??= host.now() + host.shutdownMs;
  }
}

/**
 * Waits for the agent's answer. One caller at a time: a second one gets 68 if the first does not come back in time.
 * @throws DaemonError agentUnresponsive, argumentUnsupported, operationTimeout
 */
async function askAgent(caller: Caller, domain: Domain, run: DomainRun): Promise<void> {
  if (!hasAgentChannel(run.definition.rest)) {
    throw argumentUnsupported(ERROR_DOMAIN.qemu, 'QEMU guest agent is not configured');
  }
  if (!isAgentConnected(caller.host, run)) {
    throw agentUnresponsive('QEMU guest agent is not connected');
  }
  if (run.isAgentBusy) {
    await Promise.race([caller.sleep(JOB_WAIT_MS), ended(run)]);
    throw operationTimeout(
      'cannot acquire state change lock (held by agent=remoteDispatchDomainInterfaceAddresses)',
    );
  }
  if (run.guest.agent === 'stuck') {
    run.isAgentBusy = true;
    try {
      await waitInVain(caller, domain, run);
    } finally {
      run.isAgentBusy = false;
    }
  }
}

async function waitInVain(caller: Caller, domain: Domain, run: DomainRun): Promise<never> {
  const isBounded = domain.agentTimeout >= 0;
  await Promise.race([ended(run), ...(isBounded ? [caller.sleep(domain.agentTimeout * 1_000)] : [])]);
  throw agentUnresponsive(
    run.ended.signal.aborted
      ? 'Guest agent disappeared while executing command'
      : 'guest agent command timed out',
  );
}

const ended = (run: DomainRun): Promise<void> =>
  new Promise((resolve) => {
    if (run.ended.signal.aborted) {
      resolve();
    }
    run.ended.signal.addEventListener('abort', () => resolve(), { once: true });
  });

const isAgentConnected = (host: HostState, { guest }: DomainRun): boolean =>
  guest.agent !== 'absent' && host.now() >= guest.bootedAt;

function running(domain: Domain, errorDomain: number): DomainRun {
  if (!domain.run) {
    throw operationInvalid(errorDomain, 'domain is not running');
  }
  return domain.run;
}
