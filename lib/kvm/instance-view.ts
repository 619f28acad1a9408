/**
 * From a domain's record, state and addresses to the Instance that callers see. Pure: every question about what a VM
 * "is" is answered here and nowhere else.
 */
import { DOMAIN_STATE } from '../libvirt/constants.ts';
import type { VmRecord } from '../provider/collection.ts';
import type { Instance, InstanceAddress, InstanceState, Phase } from '../provider/instance.ts';
import type { Metadata } from './metadata.ts';
import type { OwnVm } from './vm.ts';

export interface Observation {
  readonly vm: OwnVm;
  /** virDomainState. */
  readonly state: number;
  /** Seen just now; null when nobody looked, and then the recorded address counts. */
  readonly addresses: readonly InstanceAddress[] | null;
  readonly progress: Instance['progress'];
  /** Absent when nobody asked for it. */
  readonly readiness?: Instance['readiness'];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The guest is executing, or blocked on the hypervisor: up, seen from outside. */
export function isActive(state: number): boolean {
  return state === DOMAIN_STATE.running || state === DOMAIN_STATE.blocked;
}

/** By the host's name of today: it is what finds the VM. */
export function idOf({ host, identity }: OwnVm): string {
  return `${host}/${identity.name}`;
}

export function buildInstance(observation: Observation): Instance {
  const { vm } = observation;
  const { identity } = vm;
  const { metadata } = vm.description;
  const addresses = isActive(observation.state) ? knownAddresses(observation) : [];
  const judgement = judge(observation, addresses[0] ?? null);
  return {
    id: idOf(vm),
    host: vm.host,
    name: identity.name,
    uid: identity.uid,
    fleet: identity.fleet,
    ...judgement,
    progress: judgement.phase === 'importing-image' ? observation.progress : null,
    ip: addresses[0]?.address ?? null,
    addresses,
    image: identity.image,
    machineType: identity.machineType,
    diskSizeGb: identity.diskSizeGb,
    labels: metadata.labels,
    protected: metadata.protected,
    createdAt: iso(identity.createdAt),
    expiresAt: metadata.expiresAt === null ? null : iso(metadata.expiresAt),
    ...(observation.readiness === undefined ? {} : { readiness: observation.readiness }),
    ...(identity.scrub ? { seed: scrubOf(metadata, observation.now) } : {}),
  };
}

function scrubOf({ scrub, phase }: Metadata, now: number): NonNullable<Instance['seed']> {
  const doneAt = scrub?.doneAt ?? null;
  if (doneAt !== null) return { scrub: 'done', at: iso(doneAt) };
  return { scrub: now >= (phase?.deadline ?? 0) ? 'overdue' : 'pending', at: null };
}

export function buildVmRecord(vm: OwnVm): VmRecord {
  const { metadata } = vm.description;
  const { identity } = vm;
  const neverRan = metadata.startedAt === null || metadata.phase?.startRefused === true;
  const ready = metadata.phase?.phase === 'ready';
  return {
    id: idOf(vm),
    host: vm.host,
    name: identity.name,
    uid: identity.uid,
    uuid: identity.uuid,
    createdAt: identity.createdAt,
    ready,
    // Any single sign that the guest may have run is enough to keep it: a slow worker may have overwritten the phase.
    started: vm.handle.id >= 0 || ready || metadata.address !== null || !neverRan,
    deadline: metadata.phase?.deadline ?? null,
    expiresAt: metadata.expiresAt,
    protected: metadata.protected,
    deletingSince: metadata.deleting?.since ?? null,
    graceUntil: metadata.deleting?.graceUntil ?? null,
  };
}

interface Judgement {
  readonly state: InstanceState;
  readonly phase: Phase;
  readonly reason: string | null;
}

function judge(observation: Observation, address: InstanceAddress | null): Judgement {
  const { state, now, vm } = observation;
  const { deleting, phase } = vm.description.metadata;
  if (deleting !== null) {
    const grace =
      deleting.graceUntil === null ? '' : `, the guest may shut down until ${iso(deleting.graceUntil)}`;
    return { state: 'Deleting', phase: 'deleting', reason: `deleting since ${iso(deleting.since)}${grace}` };
  }
  const at = phase?.phase ?? 'reserved';
  // An address is proof enough: whatever the phase says, somebody can use this VM.
  if (isActive(state) && address !== null) return { state: 'Running', phase: 'ready', reason: null };
  if (at === 'failed') return { state: 'Failed', phase: at, reason: phase?.error ?? 'the create failed' };
  if (state === DOMAIN_STATE.nostate) {
    return { state: 'Provisioning', phase: at, reason: 'libvirt cannot tell the state of the domain' };
  }
  if (isActive(state)) return judgeWithoutAddress(observation, at);
  if (at === 'ready') return { state: 'Stopped', phase: at, reason: stoppedReason(state) };
  const deadline = phase?.deadline ?? 0;
  if (now >= deadline) {
    return {
      state: 'Failed',
      phase: at,
      reason: `the create did not end by ${iso(deadline)}: it was ${WAITS[at]}`,
    };
  }
  const error = phase?.error ? `; last error: ${phase.error}` : '';
  return {
    state: 'Provisioning',
    phase: at,
    reason: `${progressText(observation, at)}, until ${iso(deadline)}${error}`,
  };
}

function judgeWithoutAddress({ vm, addresses, now }: Observation, at: Exclude<Phase, 'deleting'>): Judgement {
  const { phase, startedAt, address } = vm.description.metadata;
  const since = startedAt === null ? '' : ` since ${iso(startedAt)}`;
  const deadline = phase?.deadline ?? 0;
  if (address !== null && addresses === null) {
    // Its host was restarted, perhaps with hundreds like it: that nobody has looked is no failure of theirs.
    const reason = `started anew since its address was seen at ${iso(address.seenAt)}; a get looks for it`;
    return { state: 'Provisioning', phase: at, reason };
  }
  if (now < deadline) {
    const reason = `started, waiting for the guest's address${since}, until ${iso(deadline)}`;
    return { state: 'Provisioning', phase: at, reason };
  }
  const reason =
    address === null
      ? `started${since}, but no address was seen by ${iso(deadline)}`
      : `started anew since its address was seen at ${iso(address.seenAt)}, and shows none now`;
  return { state: 'Failed', phase: at, reason };
}

/** What each phase waits for, in words. */
const WAITS: Readonly<Record<Exclude<Phase, 'deleting'>, string>> = {
  reserved: 'waiting for its seed to be stored',
  seeded: 'waiting for its disk',
  'importing-image': 'waiting for the image',
  starting: 'starting',
  ready: 'ready',
  failed: 'failed',
};

const MIB = 1024 ** 2;

function progressText({ progress, vm }: Observation, at: Exclude<Phase, 'deleting'>): string {
  if (at !== 'importing-image' || progress === null) return WAITS[at];
  const done = Math.floor(progress.doneBytes / MIB);
  const total = progress.totalBytes === null ? '' : ` of ${Math.ceil(progress.totalBytes / MIB)}`;
  return `image ${vm.identity.image}: ${done}${total} MiB`;
}

function stoppedReason(state: number): string {
  switch (state) {
    case DOMAIN_STATE.paused:
      return 'the domain is paused';
    case DOMAIN_STATE.pmsuspended:
      return 'the guest suspended itself';
    case DOMAIN_STATE.shutdown:
      return 'the guest is shutting down';
    case DOMAIN_STATE.crashed:
      return 'the guest crashed';
    default:
      return 'the domain is shut off';
  }
}

/** The recorded address counts only while the domain runs under the id it was seen with: a restart may change it. */
function knownAddresses({ vm, addresses }: Observation): readonly InstanceAddress[] {
  if (addresses !== null && addresses.length > 0) return addresses;
  const recorded: Metadata['address'] = vm.description.metadata.address;
  if (recorded === null || recorded.runtimeId !== vm.handle.id) return [];
  const { address, family, mac, source } = recorded;
  return [{ address, family, mac, source }];
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
