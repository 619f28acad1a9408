/**
 * A fleet in memory for the tests of what stands above the provider. It keeps what it is asked to make, refuses what
 * the contract says it refuses, and remembers every call, so that a test can also say that there was none.
 */

import type { FleetProvider } from '../../../lib/lambda/runtime.ts';
import type { CollectOutcome, FleetView } from '../../../lib/provider/collection.ts';
import type { HostHealth } from '../../../lib/provider/host-health.ts';
import type { Instance } from '../../../lib/provider/instance.ts';
import type { CreateRequest, CreateResult, Listing, ListOptions } from '../../../lib/provider/provider.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';
import type { WorkMessage } from '../../../lib/provider/work.ts';

export interface FakeFleet {
  /** One provider of this fleet, as an invocation opens it. */
  open(signal: AbortSignal): FleetProvider;
  readonly calls: string[];
  readonly requests: CreateRequest[];
  readonly messages: WorkMessage[];
  readonly instances: Map<string, Instance>;
  /** Providers opened and not closed. */
  readonly openProviders: () => number;
  /** Runs before each operation; may throw or never resolve. */
  interrupt: (operation: string, signal: AbortSignal) => Promise<void>;
  outcome: CreateResult['outcome'];
  view: FleetView;
  health: (host: string) => HostHealth;
}

export function createFakeFleet(hosts: readonly string[] = ['kvm-a', 'kvm-b']): FakeFleet {
  let opened = 0;
  const instances = new Map<string, Instance>();
  const fleet: FakeFleet = {
    calls: [],
    requests: [],
    messages: [],
    instances,
    openProviders: () => opened,
    interrupt: async () => undefined,
    outcome: 'created',
    view: { hosts: hosts.map((name) => ({ name, complete: true })), vms: [], orphanVolumes: [] },
    health: (host) => ({ host, ok: true, checks: [] }),
    open: (signal) => {
      opened += 1;
      let closed = false;
      const enter = async (operation: string) => {
        if (closed) throw new Error('used after close');
        fleet.calls.push(operation);
        await fleet.interrupt(operation, signal);
      };
      return {
        create: async (request) => {
          await enter('create');
          fleet.requests.push(request);
          const host = request.placement.host ?? hosts[0] ?? '';
          const id = `${host}/${request.name}`;
          const existing = instances.get(id);
          if (existing !== undefined) return { outcome: 'existing', instance: existing };
          const instance = fakeInstance({ host, name: request.name, labels: request.labels ?? {} });
          instances.set(id, instance);
          return { outcome: fleet.outcome, instance };
        },
        get: async (id) => {
          await enter('get');
          const instance = instances.get(id);
          if (instance === undefined) throw new ProviderError('not-found', 'there is no such VM', { id });
          return instance;
        },
        delete: async (id, { uid, graceSeconds = 0 } = {}) => {
          await enter('delete');
          const instance = instances.get(id);
          if (uid !== undefined && instance !== undefined && instance.uid !== uid) {
            throw new ProviderError('conflict', 'the VM carries another uid', { id });
          }
          if (graceSeconds > 0 && instance !== undefined) return { gone: false };
          instances.delete(id);
          return { gone: true };
        },
        listByTag: async (options: ListOptions = {}): Promise<Listing> => {
          await enter('list');
          return {
            instances: [...instances.values()].filter(({ host }) => host === (options.host ?? host)),
            hosts: fleet.view.hosts,
          };
        },
        continueWork: async (message) => {
          await enter('continueWork');
          fleet.messages.push(message);
        },
        fleetView: async () => {
          await enter('fleetView');
          return fleet.view;
        },
        collectVm: async (vm, stillDue): Promise<CollectOutcome> => {
          await enter('collectVm');
          return stillDue(vm) ? 'deleted' : 'kept';
        },
        collectVolume: async (): Promise<CollectOutcome> => {
          await enter('collectVolume');
          return 'deleted';
        },
        examineHost: async (host) => {
          await enter('examineHost');
          return fleet.health(host);
        },
        close: async () => {
          if (!closed) opened -= 1;
          closed = true;
        },
      };
    },
  };
  return fleet;
}

export function fakeInstance(
  part: Partial<Instance> & { readonly host: string; readonly name: string },
): Instance {
  return {
    id: `${part.host}/${part.name}`,
    uid: 'uid-1',
    fleet: 'demo',
    state: 'Running',
    phase: 'ready',
    reason: null,
    progress: null,
    ip: '192.0.2.15',
    addresses: [],
    image: 'debian-12',
    machineType: 'small',
    diskSizeGb: 10,
    labels: {},
    protected: false,
    createdAt: '2026-01-31T12:00:00.000Z',
    expiresAt: null,
    ...part,
  };
}
