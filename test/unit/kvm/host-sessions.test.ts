import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createEmbeddedLibvirt } from '../../../infra/local/hypervisor/embedded-libvirt.ts';
import { HostSessions } from '../../../lib/kvm/host-sessions.ts';
import type { Dial, KvmHost, KvmProviderOptions } from '../../../lib/kvm/provider-options.ts';

const HOST: KvmHost = { name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' };

function options(dial: Dial): KvmProviderOptions {
  return {
    fleet: 'demo',
    hosts: [HOST],
    machineTypes: {},
    images: {},
    diskSizeGb: 1,
    vendorData: '',
    deadlines: { createSeconds: 60, deleteSeconds: 60 },
    dial,
    enqueue: async () => undefined,
    fetch,
    now: () => Date.now(),
    randomUuid: () => crypto.randomUUID(),
    deadlineAt: Date.now() + 60_000,
    canImport: false,
  };
}

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
afterEach(() => {
  process.off('unhandledRejection', note);
  unhandled.length = 0;
});

describe('the sessions of one invocation', () => {
  it('are one per host, whoever asks at the same time', async () => {
    const daemon = createEmbeddedLibvirt({ name: HOST.name });
    let dialled = 0;
    const sessions = new HostSessions(
      options(async () => {
        dialled += 1;
        return { stream: daemon.connect(), close: async () => undefined };
      }),
    );

    const [first, second] = await Promise.all([sessions.get(HOST), sessions.get(HOST)]);

    expect(first).toBe(second);
    expect(dialled).toBe(1);
    await sessions.close();
  });

  it('reject only to the caller when the host is gone for good and the broken one is slow to close', async () => {
    process.on('unhandledRejection', note);
    const daemon = createEmbeddedLibvirt({ name: HOST.name });
    const sessions = new HostSessions(
      options(async () => {
        if (!daemon.isListening) throw new Error('connection refused');
        return { stream: daemon.connect(), close: () => pause(50) };
      }),
    );
    const broken = await sessions.get(HOST);
    daemon.isListening = false;
    daemon.restart();
    while (!broken.closed) await pause(1);

    await expect(sessions.get(HOST)).rejects.toThrow('connection refused');

    await pause(10);
    expect(unhandled).toEqual([]);
  });

  it('open none after they were closed, also for a caller who had begun to wait before', async () => {
    const daemon = createEmbeddedLibvirt({ name: HOST.name });
    let dialled = 0;
    const sessions = new HostSessions(
      options(async () => {
        dialled += 1;
        return { stream: daemon.connect(), close: async () => undefined };
      }),
    );
    const broken = await sessions.get(HOST);
    daemon.restart();
    while (!broken.closed) await pause(1);

    const late = sessions.get(HOST);
    await sessions.close();

    await expect(late).rejects.toThrow('the provider was closed');
    expect(dialled).toBe(1);
  });
});
