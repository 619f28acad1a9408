/**
 * The domains of one host: which exist, which of them have a stored definition (persistent) and which run. A name and a
 * UUID belong to one domain at a time, and every rule about which of the two definitions counts is here or below.
 */
import { DOMAIN_SHUTOFF_REASON } from '../../../../lib/libvirt/constants.ts';
import { ERROR_DOMAIN, noDomain, operationFailed, operationInvalid } from '../daemon/daemon-error.ts';
import { type DefineContext, type DomainDefinition, parseDomainDefinition } from './domain-definition.ts';
import { interfacesOf } from './domain-devices.ts';
import type { Guest } from './guest.ts';

/** One run of a domain, from start to stop. */
export interface DomainRun {
  /** The runtime id: never used again while the daemon's host is up. */
  readonly id: number;
  /** A copy: what is changed live is gone when the domain stops. */
  definition: DomainDefinition;
  readonly guest: Guest;
  readonly taps: readonly string[];
  isPaused: boolean;
  /** Epoch milliseconds at which a requested shutdown takes effect. */
  offAt: number | undefined;
  /** Set while somebody waits for the guest agent: libvirt lets one caller at a time do so. */
  isAgentBusy: boolean;
  readonly ended: AbortController;
}

export interface Domain {
  readonly name: string;
  readonly uuid: string;
  /** The stored definition; undefined for a transient domain. */
  config: DomainDefinition | undefined;
  run: DomainRun | undefined;
  autostart: boolean;
  /** virDomainShutoffReason of the last stop. */
  shutoffReason: number;
  /** Seconds, or one of AGENT_RESPONSE_TIMEOUT. */
  agentTimeout: number;
}

export class DomainStore {
  readonly #byUuid = new Map<string, Domain>();
  readonly #context: DefineContext;
  readonly #now: () => number;
  #lastId = 0;

  constructor(context: DefineContext, now: () => number) {
    this.#context = context;
    this.#now = now;
  }

  get all(): Domain[] {
    this.#settle();
    return [...this.#byUuid.values()];
  }

  find(name: string): Domain | undefined {
    return this.all.find((domain) => domain.name === name);
  }

  /** For tests: what runs in a domain, to be silenced or stuck. @throws DaemonError noDomain, operationInvalid */
  guest(name: string): Guest {
    const { run } = this.byName(name);
    if (!run) {
      throw operationInvalid(ERROR_DOMAIN.domain, 'domain is not running');
    }
    return run.guest;
  }

  /** @throws DaemonError noDomain */
  byName(name: string): Domain {
    const domain = this.find(name);
    if (!domain) {
      throw noDomain(`no domain with matching name '${name}'`);
    }
    return domain;
  }

  /** `name` is only what a handle says besides; it shows in the message. @throws DaemonError noDomain */
  byUuid(uuid: string, name?: string): Domain {
    this.#settle();
    const domain = this.#byUuid.get(uuid);
    if (!domain) {
      throw noDomain(`no domain with matching uuid '${uuid}'${name === undefined ? '' : ` (${name})`}`);
    }
    return domain;
  }

  /**
   * Stores a definition. An upsert, as in libvirt: the same UUID replaces everything, metadata included, and makes a
   * transient domain persistent. @throws DaemonError operationFailed when name and UUID belong to different domains.
   */
  define(xml: string): Domain {
    const config = parseDomainDefinition(xml, this.#context);
    const sameName = this.find(config.name);
    const sameUuid = this.#byUuid.get(config.uuid);
    if (sameUuid && sameUuid.name !== config.name) {
      throw operationFailed(
        ERROR_DOMAIN.domain,
        `domain '${sameUuid.name}' is already defined with uuid ${sameUuid.uuid}`,
      );
    }
    if (sameName && sameName.uuid !== config.uuid) {
      throw operationFailed(
        ERROR_DOMAIN.domain,
        `domain '${sameName.name}' already exists with uuid ${sameName.uuid}`,
      );
    }
    if (sameUuid) {
      sameUuid.config = config;
      return sameUuid;
    }
    const domain: Domain = {
      name: config.name,
      uuid: config.uuid,
      config,
      run: undefined,
      autostart: false,
      shutoffReason: DOMAIN_SHUTOFF_REASON.unknown,
      agentTimeout: -2,
    };
    this.#byUuid.set(domain.uuid, domain);
    return domain;
  }

  /** A running domain runs on without a definition. @throws DaemonError operationInvalid for a transient one. */
  undefine(domain: Domain): void {
    if (!domain.config) {
      throw operationInvalid(ERROR_DOMAIN.qemu, 'cannot undefine transient domain');
    }
    domain.config = undefined;
    domain.autostart = false;
    this.#forgetIfGone(domain);
  }

  /** A transient domain is gone after it. @throws DaemonError operationInvalid when it does not run. */
  stop(domain: Domain, reason: number): void {
    if (!domain.run) {
      throw operationInvalid(ERROR_DOMAIN.domain, 'domain is not running');
    }
    domain.run.ended.abort();
    domain.run = undefined;
    domain.shutoffReason = reason;
    this.#forgetIfGone(domain);
  }

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Whether another domain, running or stored, has the interface's address. */
  isMacUsed(mac: string): boolean {
    return this.all.some((domain) =>
      [domain.config, domain.run?.definition].some((definition) =>
        interfacesOf(definition?.rest ?? []).some((nic) => nic.mac === mac),
      ),
    );
  }

  /** Domains whose shutdown is due go off now: nobody can have looked at them since it was. */
  #settle(): void {
    for (const domain of this.#byUuid.values()) {
      const offAt = domain.run?.offAt;
      if (offAt !== undefined && offAt <= this.#now()) {
        this.stop(domain, DOMAIN_SHUTOFF_REASON.shutdown);
      }
    }
  }

  #forgetIfGone(domain: Domain): void {
    if (!domain.config && !domain.run) {
      this.#byUuid.delete(domain.uuid);
    }
  }
}

/** The definition that CURRENT means: the live one of a running domain, else the stored one. */
export function currentDefinition(domain: Domain): DomainDefinition {
  const definition = domain.run?.definition ?? domain.config;
  if (!definition) {
    throw noDomain(`no domain with matching uuid '${domain.uuid}' (${domain.name})`);
  }
  return definition;
}
