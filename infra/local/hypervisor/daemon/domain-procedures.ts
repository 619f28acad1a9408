/** Domains: finding, defining, starting, stopping and what state they are in. */
import {
  CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
  CONNECT_LIST_DOMAINS_ACTIVE,
  CONNECT_LIST_DOMAINS_INACTIVE,
  CONNECT_LIST_DOMAINS_PERSISTENT,
  CONNECT_LIST_DOMAINS_TRANSIENT,
  DOMAIN_SHUTOFF_REASON,
  DOMAIN_START_PAUSED,
  DOMAIN_STATE,
  DOMAIN_STATS_STATE,
  DOMAIN_XML_INACTIVE,
} from '../../../../lib/libvirt/constants.ts';
import { type DomainHandle, TYPED_PARAM } from '../../../../lib/libvirt/objects.ts';
import { formatUuid, parseUuid } from '../../../../lib/libvirt/uuid.ts';
import { formatDomainDefinition } from '../state/domain-definition.ts';
import { liveDevices } from '../state/domain-devices.ts';
import { currentDefinition, type Domain } from '../state/domain-store.ts';
import type { HostState } from '../state/host-state.ts';
import { backingChain, startDomain } from '../state/start-domain.ts';
import { checkFlags, ERROR_DOMAIN, operationInvalid } from './daemon-error.ts';
import type { Handlers } from './handler.ts';

/** virDomainUndefineFlagsValues up to KEEP_TPM, which libvirt 9.0 knows. */
const UNDEFINE = { nvram: 4, keepNvram: 8, tpm: 32, keepTpm: 64, all: 127 } as const;
/** virConnectListAllDomainsFlags: pairs of opposites; a pair of which neither is set does not filter. */
const LIST_FLAGS = 0x3fff;
const LIST_RUNNING = 16;
const LIST_PAUSED = 32;
const LIST_SHUTOFF = 64;
const LIST_OTHER = 128;
const LIST_AUTOSTART = 1024;
const LIST_NO_AUTOSTART = 2048;

/** The domain of a handle. Only its UUID counts. @throws DaemonError noDomain for a stale one. */
export const domainOf = (host: HostState, handle: DomainHandle): Domain =>
  host.domains.byUuid(formatUuid(handle.uuid), handle.name);

const handleOf = (domain: Domain): DomainHandle => ({
  name: domain.name,
  uuid: parseUuid(domain.uuid),
  id: domain.run?.id ?? -1,
});

const start = (host: HostState, dom: DomainHandle, flags: number): { dom: DomainHandle } => {
  checkFlags(flags, 0x1f, 'qemuDomainCreateWithFlags', ERROR_DOMAIN.qemu);
  const domain = domainOf(host, dom);
  startDomain(host, domain, { paused: (flags & DOMAIN_START_PAUSED) !== 0 });
  return { dom: handleOf(domain) };
};

const destroy = (host: HostState, dom: DomainHandle, flags: number): void => {
  checkFlags(flags, 3, 'qemuDomainDestroyFlags', ERROR_DOMAIN.qemu);
  host.domains.stop(domainOf(host, dom), DOMAIN_SHUTOFF_REASON.destroyed);
};

const define = (host: HostState, xml: string, flags: number): { dom: DomainHandle } => {
  checkFlags(flags, 1, 'qemuDomainDefineXMLFlags', ERROR_DOMAIN.qemu);
  return { dom: handleOf(host.domains.define(xml)) };
};

const undefine = (host: HostState, dom: DomainHandle, flags: number): void => {
  checkFlags(flags, UNDEFINE.all, 'qemuDomainUndefineFlags', ERROR_DOMAIN.qemu);
  const domain = domainOf(host, dom);
  for (const [what, both] of [
    ['nvram', UNDEFINE.nvram | UNDEFINE.keepNvram],
    ['TPM', UNDEFINE.tpm | UNDEFINE.keepTpm],
  ] as const) {
    if ((flags & both) === both) {
      throw operationInvalid(ERROR_DOMAIN.qemu, `cannot both keep and delete ${what}`);
    }
  }
  host.domains.undefine(domain);
};

const stateOf = ({ run, shutoffReason }: Domain): { state: number; reason: number } => {
  if (!run) {
    return { state: DOMAIN_STATE.shutoff, reason: shutoffReason };
  }
  // Reason 1 is "booted" for a running domain and "user" for a paused one.
  return { state: run.isPaused ? DOMAIN_STATE.paused : DOMAIN_STATE.running, reason: 1 };
};

export const domainProcedures: Handlers<
  | 'domainLookupByName'
  | 'domainLookupByUuid'
  | 'connectListAllDomains'
  | 'domainDefineXml'
  | 'domainDefineXmlFlags'
  | 'domainUndefine'
  | 'domainUndefineFlags'
  | 'domainCreate'
  | 'domainCreateWithFlags'
  | 'domainDestroy'
  | 'domainDestroyFlags'
  | 'domainGetXmlDesc'
  | 'domainGetState'
  | 'domainGetInfo'
  | 'domainSetAutostart'
  | 'domainGetAutostart'
  | 'connectGetAllDomainStats'
> = {
  domainLookupByName: ({ name }, { host }) => ({ dom: handleOf(host.domains.byName(name)) }),
  domainLookupByUuid: ({ uuid }, { host }) => ({ dom: handleOf(host.domains.byUuid(formatUuid(uuid))) }),
  connectListAllDomains: ({ needResults, flags }, { host }) => {
    checkFlags(flags, LIST_FLAGS, 'qemuConnectListAllDomains', ERROR_DOMAIN.qemu);
    const found = host.domains.all.filter((domain) => isListed(domain, flags));
    return { domains: needResults ? found.map(handleOf) : [], ret: found.length };
  },
  domainDefineXml: ({ xml }, { host }) => define(host, xml, 0),
  domainDefineXmlFlags: ({ xml, flags }, { host }) => define(host, xml, flags),
  domainUndefine: ({ dom }, { host }) => undefine(host, dom, 0),
  domainUndefineFlags: ({ dom, flags }, { host }) => undefine(host, dom, flags),
  domainCreate: ({ dom }, { host }) => {
    start(host, dom, 0);
  },
  domainCreateWithFlags: ({ dom, flags }, { host }) => start(host, dom, flags),
  domainDestroy: ({ dom }, { host }) => destroy(host, dom, 0),
  domainDestroyFlags: ({ dom, flags }, { host }) => destroy(host, dom, flags),
  domainGetXmlDesc: ({ dom, flags }, { host }) => {
    checkFlags(flags, 0xf, 'qemuDomainGetXMLDesc', ERROR_DOMAIN.qemu);
    return { xml: domainXml(host, domainOf(host, dom), (flags & DOMAIN_XML_INACTIVE) !== 0) };
  },
  domainGetState: ({ dom, flags }, { host }) => {
    checkFlags(flags, 0, 'qemuDomainGetState', ERROR_DOMAIN.qemu);
    return stateOf(domainOf(host, dom));
  },
  domainGetInfo: ({ dom }, { host }) => {
    const domain = domainOf(host, dom);
    const { memoryKiB, vcpus } = currentDefinition(domain);
    const ranMs = domain.run ? Math.max(0, host.now() - domain.run.guest.boot.at) : 0;
    return {
      state: stateOf(domain).state,
      maxMem: memoryKiB,
      memory: memoryKiB,
      nrVirtCpu: vcpus,
      cpuTime: BigInt(Math.round(ranMs * 1_000_000)),
    };
  },
  domainSetAutostart: ({ dom, autostart }, { host }) => {
    const domain = domainOf(host, dom);
    if (!domain.config) {
      throw operationInvalid(ERROR_DOMAIN.qemu, 'cannot set autostart for transient domain');
    }
    domain.autostart = autostart !== 0;
  },
  domainGetAutostart: ({ dom }, { host }) => ({ autostart: domainOf(host, dom).autostart ? 1 : 0 }),
  connectGetAllDomainStats: ({ doms, stats, flags }, { host }) => {
    checkFlags(
      flags >>> 0,
      (LIST_FLAGS | CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT | 0xc000_0000) >>> 0,
      'qemuConnectGetAllDomainStats',
      ERROR_DOMAIN.qemu,
    );
    // A domain that is gone by now is left out, not an error.
    const wanted = new Set(doms.map((dom) => formatUuid(dom.uuid)));
    const found = host.domains.all.filter(
      (domain) => (wanted.size === 0 || wanted.has(domain.uuid)) && isListed(domain, flags & LIST_FLAGS),
    );
    return {
      retStats: found.map((domain) => ({
        dom: handleOf(domain),
        params: stats === 0 || stats & DOMAIN_STATS_STATE ? stateParams(domain) : [],
      })),
    };
  },
};

function domainXml(host: HostState, domain: Domain, inactive: boolean): string {
  const { run, config } = domain;
  if (!run || (inactive && config)) {
    return formatDomainDefinition(config ?? currentDefinition(domain));
  }
  if (inactive) {
    return formatDomainDefinition(run.definition);
  }
  const devices = liveDevices(run.definition.rest, {
    id: run.id,
    name: domain.name,
    tap: (index) => run.taps[index] ?? '',
    agentConnected: run.guest.agent !== 'absent' && host.now() >= run.guest.bootedAt,
    backing: (path) => backingChain(path, host.files),
  });
  return formatDomainDefinition(run.definition, { id: run.id, devices });
}

function stateParams(domain: Domain) {
  const { state, reason } = stateOf(domain);
  const int = (field: string, value: number) => ({
    field,
    value: { type: TYPED_PARAM.int, value },
  });
  return [int('state.state', state), int('state.reason', reason)];
}

function isListed(domain: Domain, flags: number): boolean {
  const { state } = stateOf(domain);
  const is: readonly (readonly [number, boolean])[][] = [
    [
      [CONNECT_LIST_DOMAINS_ACTIVE, domain.run !== undefined],
      [CONNECT_LIST_DOMAINS_INACTIVE, domain.run === undefined],
    ],
    [
      [CONNECT_LIST_DOMAINS_PERSISTENT, domain.config !== undefined],
      [CONNECT_LIST_DOMAINS_TRANSIENT, domain.config === undefined],
    ],
    [
      [LIST_RUNNING, state === DOMAIN_STATE.running],
      [LIST_PAUSED, state === DOMAIN_STATE.paused],
      [LIST_SHUTOFF, state === DOMAIN_STATE.shutoff],
      [LIST_OTHER, false],
    ],
    [
      [LIST_AUTOSTART, domain.autostart],
      [LIST_NO_AUTOSTART, !domain.autostart],
    ],
  ];
  return is.every((group) => {
    const asked = group.filter(([flag]) => (flags & flag) !== 0);
    return asked.length === 0 || asked.some(([, holds]) => holds);
  });
}
