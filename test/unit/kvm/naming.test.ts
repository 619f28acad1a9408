import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { macFromUuid } from '../../../lib/kvm/mac-address.ts';
import { parseVolumeName, uuidPart, VOLUME_KINDS, volumeName } from '../../../lib/kvm/volume-names.ts';

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
const owner = fc.record({ fleet: label, host: label, name: label, uuid: fc.uuid() });
const kind = fc.constantFrom(...VOLUME_KINDS);

describe('volume names', () => {
  it('tell whose they are, whatever the labels', () => {
    fc.assert(
      fc.property(owner, kind, (whose, which) => {
        const { uuid, ...labels } = whose;

        expect(parseVolumeName(volumeName(whose, which))).toEqual({
          ...labels,
          uuidPart: uuidPart(uuid),
          kind: which,
        });
      }),
    );
  });

  it('never collide for two owners', () => {
    fc.assert(
      fc.property(owner, owner, (a, b) => {
        const same =
          a.fleet === b.fleet &&
          a.host === b.host &&
          a.name === b.name &&
          uuidPart(a.uuid) === uuidPart(b.uuid);

        expect(volumeName(a, 'disk') === volumeName(b, 'disk')).toBe(same);
      }),
    );
  });

  it('fit into a file name at their longest', () => {
    const long = 'a'.repeat(63);

    const name = volumeName({ fleet: long, host: long, name: long, uuid: '0'.repeat(36) }, 'seed');

    expect(name.length).toBeLessThanOrEqual(255);
  });

  it.each([
    'debian.qcow2',
    'kvmfn-base-00.qcow2',
    'kvmfn_a_b_c_0123.disk',
    'kvmfn_a_b_c_0123456789abcdef.iso',
    '',
  ])('take %j for nobody’s', (name) => {
    expect(parseVolumeName(name)).toBeNull();
  });
});

describe('macFromUuid', () => {
  it('is locally administered unicast, the same for the same UUID', () => {
    fc.assert(
      fc.property(fc.uuid(), (uuid) => {
        const mac = macFromUuid(uuid);

        expect(mac).toMatch(/^0[26ae](:[0-9a-f]{2}){5}$/);
        expect(macFromUuid(uuid)).toBe(mac);
      }),
    );
  });

  it('differs between UUIDs', () => {
    const macs = fc.sample(fc.uuid(), 1000).map(macFromUuid);

    expect(new Set(macs).size).toBeGreaterThan(990);
  });
});
