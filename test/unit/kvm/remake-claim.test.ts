import { beforeEach, describe, expect, it } from 'vitest';
import type { HostSession } from '../../../lib/kvm/host-session.ts';
import { METADATA, remakingPlace } from '../../../lib/kvm/metadata.ts';
import type { ProviderContext } from '../../../lib/kvm/provider-context.ts';
import { isBeingRemade, whileRemaking } from '../../../lib/kvm/remake-claim.ts';
import type { OwnVm } from '../../../lib/kvm/vm.ts';
import { LibvirtError, LibvirtTimeoutError, LibvirtTransportError } from '../../../lib/libvirt/errors.ts';
import { ProviderError } from '../../../lib/provider/provider-error.ts';

const MINUTE = 60_000;
const refusal = { code: 55, domain: 18, level: 2, message: 'in use', int1: 0, int2: 0 };

let steps: string[];
let started: string;
beforeEach(() => {
  steps = [];
  started = '';
});

function remake(work: () => Promise<string>): Promise<string> {
  const call = async (procedure: string, args: { uri?: string; metadata?: string | null }) => {
    if (procedure === 'domainSetMetadata') {
      expect(args.uri).toBe(remakingPlace('w-1').uri);
      steps.push(args.metadata === null ? 'remove' : `write ${args.metadata}`);
      return undefined;
    }
    steps.push('look');
    return { xml: `<domain><name>vm-1</name><uuid>u</uuid><metadata>${started}</metadata></domain>` };
  };
  const context = { options: { randomUuid: () => 'w-1', now: () => 7 } } as unknown as ProviderContext;
  const session = { host: { name: 'kvm-a' }, call } as unknown as HostSession;
  const vm = { handle: { name: 'vm-1', uuid: new Uint8Array(16), id: -1 } } as unknown as OwnVm;
  return whileRemaking(context, session, vm, (wasStarted) => {
    steps.push(`remake ${wasStarted}`);
    return work();
  });
}

describe('a disk that is made again', () => {
  it('is so between a mark, a look and the removal of the mark, in this order', async () => {
    expect(await remake(async () => 'made')).toBe('made');

    expect(steps).toEqual(['write <remaking since="7"/>', 'look', 'remake false', 'remove']);
  });

  it('is known to hold a guest’s data perhaps when a start was issued', async () => {
    started = `<s:started xmlns:s="${METADATA.started.uri}" at="3"/>`;

    await remake(async () => 'left alone');

    expect(steps).toContain('remake true');
  });

  it.each([
    new LibvirtError({ ...refusal, procedure: 'storageVolDelete' }),
    new ProviderError('permanent', 'no'),
  ])('loses its mark after an answer: $name', async (answer) => {
    await expect(remake(() => Promise.reject(answer))).rejects.toBe(answer);

    expect(steps.at(-1)).toBe('remove');
  });

  it.each([
    new LibvirtTimeoutError('storageVolDelete', 60_000),
    new LibvirtTransportError('the connection ended'),
  ])('keeps its mark without one, since the delete may be on its way: $name', async (silence) => {
    await expect(remake(() => Promise.reject(silence))).rejects.toBe(silence);

    expect(steps).not.toContain('remove');
  });

  it('is no more so when its marks are older than any worker can be', () => {
    const at = (...remakingSince: number[]) =>
      isBeingRemade({ remakingSince } as unknown as Parameters<typeof isBeingRemade>[0], 60 * MINUTE);

    expect([at(), at(40 * MINUTE), at(41 * MINUTE), at(1, 59 * MINUTE)]).toEqual([false, false, true, true]);
  });
});
