/** This project's provider as the functions use it: one for each order, with a session of its own. */
import { createKvmProvider } from '../../../lib/kvm/kvm-provider.ts';
import type { HostStream, KvmProviderOptions } from '../../../lib/kvm/provider-options.ts';
import type { ListAnswer, ListOrder, PeerSettings, VmOrder } from './orders.ts';
import type { Timed } from './warm-peer.ts';

const INVOCATION_MS = 600_000;

type Dial = () => Promise<HostStream>;

/** What a `GET /instances` does on a host. The session is there already: a get opens it. */
export async function listWithProvider(
  settings: PeerSettings,
  dial: Dial,
  order: ListOrder,
): Promise<ListAnswer> {
  const provider = createKvmProvider(optionsFor(settings, dial));
  try {
    await provider.get(`${settings.host}/${order.vm}`);
    const startedAt = performance.now();
    const { instances, hosts } = await provider.listByTag();
    const ms = performance.now() - startedAt;
    const incomplete = hosts.find(({ complete }) => !complete);
    if (incomplete !== undefined) throw new Error(incomplete.error?.detail);
    return { ms, count: instances.length };
  } finally {
    await provider.close();
  }
}

/** A create is over when the VM was started, with the image on the host; a delete, when nothing is left of it. */
export async function makeOrTakeAway(settings: PeerSettings, dial: Dial, order: VmOrder): Promise<Timed> {
  const { image, op, vm: name } = order;
  const startedAt = performance.now();
  const provider = createKvmProvider({
    ...optionsFor(settings, dial),
    machineTypes: { small: { vcpus: 1, memoryMiB: 128 } },
    images: { tiny: { ...image, format: 'qcow2' } },
    canImport: true,
  });
  try {
    if (op === 'create') {
      const { outcome } = await provider.create({ name, placement: { machineType: 'small', image: 'tiny' } });
      if (outcome !== 'created') throw new Error(`the create ended ${outcome}`);
    } else {
      const { gone } = await provider.delete(`${settings.host}/${name}`);
      if (!gone) throw new Error('the VM is not gone');
    }
  } finally {
    await provider.close();
  }
  return { ms: performance.now() - startedAt };
}

/** The queue is not this project's to be timed: what goes there costs nothing here. */
function optionsFor({ fleet, host, pool, bridge }: PeerSettings, dial: Dial): KvmProviderOptions {
  return {
    fleet,
    hosts: [{ name: host, pool, bridge, virtType: 'qemu' }],
    machineTypes: {},
    images: {},
    diskSizeGb: 10,
    vendorData: '',
    deadlines: { createSeconds: 3600, deleteSeconds: 600 },
    dial,
    enqueue: async () => undefined,
    fetch,
    now: Date.now,
    randomUuid: () => crypto.randomUUID(),
    deadlineAt: Date.now() + INVOCATION_MS,
    canImport: false,
  };
}
