/**
 * The VMs that sessions look at and lists show: defined with the provider's own builders, so that their XML and their
 * metadata are as large as in production. They have no volumes. One, without disks, is started and held before its first
 * instruction: only an active domain can be asked for its addresses, and one that runs would take the processor.
 */
import { mapBounded } from '../../lib/kvm/bounded-map.ts';
import { buildDomainXml } from '../../lib/kvm/domain-xml.ts';
import { macFromUuid } from '../../lib/kvm/mac-address.ts';
import type { Identity } from '../../lib/kvm/metadata.ts';
import { buildIdentity, buildLabels, buildPhase, buildStarted } from '../../lib/kvm/metadata-elements.ts';
import type { KvmHost } from '../../lib/kvm/provider-options.ts';
import { volumeName } from '../../lib/kvm/volume-names.ts';
import type { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { DOMAIN_START_PAUSED } from '../../lib/libvirt/constants.ts';
import { GUEST_BRIDGE, POOL } from '../lab/topology.ts';
import { BENCH_HOST } from './bench-host.ts';

/** Nobody else's VMs: the collector and the lists of other fleets do not touch them. */
export const BENCH_FLEET = 'bench';
/** Emulated whatever the machine can do: nothing is ever executed, and this works everywhere. */
export const KVM_HOST: KvmHost = {
  name: BENCH_HOST.name,
  pool: POOL.name,
  bridge: GUEST_BRIDGE,
  virtType: 'qemu',
};

const NAME_PREFIX = 'kvmfn-bench-';
const IN_FLIGHT = 16;
const CREATED_AT = Date.UTC(2026, 0, 1);

/** Defines `count` VMs that are shut off. */
export async function defineVms(connection: LibvirtConnection, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `${NAME_PREFIX}${`${index}`.padStart(4, '0')}`);
  await mapBounded(names, IN_FLIGHT, (name) =>
    connection.call('domainDefineXml', { xml: buildVmXml(name, crypto.randomUUID()) }),
  );
}

/** Defines and starts one VM, and returns its name. */
export async function startVm(connection: LibvirtConnection): Promise<string> {
  const name = `${NAME_PREFIX}active`;
  const uuid = crypto.randomUUID();
  const xml = buildVmXml(name, uuid).replaceAll(/<disk .*?<\/disk>/gs, '');
  const { dom } = await connection.call('domainDefineXml', { xml });
  await connection.call('domainCreateWithFlags', { dom, flags: DOMAIN_START_PAUSED });
  return name;
}

/** Removes every VM of these, or of those with another prefix, also those that an earlier run has left behind. May be repeated. */
export async function removeVms(connection: LibvirtConnection, prefix = NAME_PREFIX): Promise<void> {
  const { domains } = await connection.call('connectListAllDomains', { needResults: 1, flags: 0 });
  const ours = domains.filter(({ name }) => name.startsWith(prefix));
  await mapBounded(ours, IN_FLIGHT, async (dom) => {
    if (dom.id >= 0) await connection.call('domainDestroy', { dom });
    await connection.call('domainUndefine', { dom });
  });
}

/** The definition of a VM, and the names of its volumes, for those who make one without the provider. */
export function describeVm(name: string) {
  const uuid = crypto.randomUUID();
  const volume = (kind: 'disk' | 'seed') => volumeName(identityOf(name, uuid), kind);
  return { xml: buildVmXml(name, uuid), disk: volume('disk'), seed: volume('seed') };
}

/** As a VM of the provider is once its create has ended. */
function buildVmXml(name: string, uuid: string): string {
  const identity = identityOf(name, uuid);
  return buildDomainXml({
    name,
    uuid,
    host: KVM_HOST,
    machineType: { vcpus: 1, memoryMiB: 128 },
    mac: macFromUuid(uuid),
    diskPath: `${POOL.target}/${volumeName(identity, 'disk')}`,
    seedPath: `${POOL.target}/${volumeName(identity, 'seed')}`,
    metadata: [
      buildIdentity(identity),
      buildPhase({
        phase: 'ready',
        seeded: true,
        startRefused: false,
        attempt: 0,
        deadline: CREATED_AT + 3_600_000,
        error: null,
      }),
      buildStarted(CREATED_AT + 10_000),
      buildLabels({ role: 'proxy' }),
    ],
  });
}

function identityOf(name: string, uuid: string): Identity {
  return {
    uuid,
    fleet: BENCH_FLEET,
    host: KVM_HOST.name,
    name,
    uid: `request-${name}`,
    createdAt: CREATED_AT,
    image: 'debian-12',
    machineType: 'small',
    diskSizeGb: 10,
    autostart: true,
    baseVolume: `kvmfn-image_debian-12_${'0'.repeat(16)}.qcow2`,
    seedBytes: 376_832,
    seedDigest: '0'.repeat(64),
    scrub: false,
    requested: {
      'placement.machineType': 'small',
      'placement.image': 'debian-12',
      cloudInit: '0'.repeat(64),
      labels: '[["role","proxy"]]',
    },
  };
}
