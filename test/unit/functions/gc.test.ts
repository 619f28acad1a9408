import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../functions/gc.ts';
import type { VmRecord } from '../../../lib/provider/collection.ts';
import { createTestRuntime, lambdaContext } from '../lambda/test-runtime.ts';

const EXPIRED: VmRecord = {
  id: 'kvm-a/old',
  host: 'kvm-a',
  name: 'old',
  uid: 'uid-1',
  uuid: '6a7f2f5e-7c53-4c6b-9d2b-0b8f6f0f6d11',
  createdAt: Date.parse('2026-01-01T00:00:00Z'),
  ready: true,
  started: true,
  deadline: Date.parse('2026-01-01T01:00:00Z'),
  expiresAt: Date.parse('2026-01-02T00:00:00Z'),
  protected: false,
  deletingSince: null,
  graceUntil: null,
};

function runtimeWithExpired() {
  const runtime = createTestRuntime();
  runtime.fleet.view = { ...runtime.fleet.view, vms: [EXPIRED] };
  return runtime;
}

const context = lambdaContext(300_000);

describe('gc', () => {
  it.each([[{}], [{ mode: 'report' }]])('reports by default what it would delete: %j', async (input) => {
    const runtime = runtimeWithExpired();

    const result = await createHandler(runtime)(input, context);

    expect(result).toMatchObject({
      mode: 'report',
      hosts: [
        { name: 'kvm-a', complete: true },
        { name: 'kvm-b', complete: true },
      ],
      plan: [
        { id: 'kvm-a/old', reason: 'lease-expired', since: '2026-01-02T00:00:00.000Z', action: 'delete' },
      ],
      done: [],
    });
    expect(runtime.fleet.calls).toEqual(['fleetView']);
    expect(runtime.fleet.openProviders()).toBe(0);
  });

  it('deletes when the input says so', async () => {
    const runtime = runtimeWithExpired();

    const result = await createHandler(runtime)({ mode: 'delete' }, context);

    expect(result).toMatchObject({ mode: 'delete', done: [{ id: 'kvm-a/old', outcome: 'deleted' }] });
  });

  it('deletes nothing on a partial view', async () => {
    const runtime = runtimeWithExpired();
    const hosts = [
      { name: 'kvm-a', complete: true },
      { name: 'kvm-b', complete: false },
    ];
    runtime.fleet.view = { ...runtime.fleet.view, hosts };

    const result = await createHandler(runtime)({ mode: 'delete' }, context);

    expect(result).toMatchObject({ done: [], refused: expect.stringContaining('kvm-b') });
  });

  it.each([
    [{ mode: 'mark' }, /\/mode must be report or delete/],
    [{ liveUids: [] }, /\/liveUids is not supported yet/],
    [{ observedAt: '2026-01-01T00:00:00Z' }, /\/observedAt is not supported yet/],
    [{ mode: null }, /\/mode/],
    [{ Mode: 'report' }, /\/Mode is not a known field/],
    [[], /must be a JSON object/],
    ['report', /must be a JSON object/],
  ])('refuses %j', async (input, message) => {
    const runtime = runtimeWithExpired();

    const call = createHandler(runtime)(input, context);

    await expect(call).rejects.toThrow(message);
    await expect(call).rejects.toMatchObject({ name: 'InvalidRequest' });
    expect(runtime.fleet.calls).toEqual([]);
  });
});
