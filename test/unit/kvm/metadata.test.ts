import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AddressRecord, type Identity, METADATA, remakingPlace } from '../../../lib/kvm/metadata.ts';
import {
  buildAddress,
  buildDeleting,
  buildIdentity,
  buildLabels,
  buildLease,
  buildPhase,
  buildProtection,
  buildRemaking,
  buildScrub,
  buildStarted,
  metadataText,
} from '../../../lib/kvm/metadata-elements.ts';
import { parseMetadata } from '../../../lib/kvm/parse-metadata.ts';
import { buildXml, parseXml } from '../../../lib/libvirt/xml-tree.ts';

const IDENTITY: Identity = {
  uuid: '11111111-2222-4333-8444-555555555555',
  fleet: 'demo',
  host: 'kvm-a',
  name: 'vm-1',
  uid: '00123',
  createdAt: 1_769_860_800_000,
  image: 'debian-12',
  machineType: 'small',
  diskSizeGb: 10,
  autostart: true,
  baseVolume: 'kvmfn-base-00.qcow2',
  seedBytes: 374_784,
  seedDigest: 'ab'.repeat(32),
  scrub: true,
  requested: { 'placement.image': 'debian-12', ttlSeconds: '60' },
};

const read = (...children: Parameters<typeof buildXml>[0][]) =>
  parseMetadata(parseXml(buildXml({ tag: 'metadata', children })));

describe('metadata', () => {
  it('reads back every element as it was written', () => {
    const phase = {
      phase: 'starting',
      seeded: true,
      startRefused: true,
      attempt: 3,
      deadline: 9,
      error: 'a <b>',
    } as const;
    const deleting = { since: 5, reason: 'asked for', graceUntil: 7 };
    const address: AddressRecord = {
      address: '192.0.2.15',
      family: 'ipv4',
      mac: '52:54:00:aa:bb:01',
      source: 'agent',
      seenAt: 4,
      runtimeId: 12,
    };

    const scrub = { since: 10, doneAt: 11 };

    const metadata = read(
      ...[
        buildIdentity(IDENTITY),
        buildPhase(phase),
        buildStarted(3),
        buildLease(8),
        buildLabels({ a: 'b', c: '' }),
      ],
      ...[buildProtection(), buildDeleting(deleting), buildAddress(address), buildScrub(scrub)],
    );

    expect(metadata).toEqual({
      ...{
        identity: IDENTITY,
        phase,
        startedAt: 3,
        expiresAt: 8,
        labels: { a: 'b', c: '' },
        protected: true,
      },
      ...{ deleting, address, scrub, remakingSince: [] },
    });
  });

  it('finds the mark of every worker that makes the disk again, each under a URI of its own', () => {
    const mark = (worker: string, since: string) =>
      `<m:remaking xmlns:m="${remakingPlace(worker).uri}" since="${since}"/>`;

    const { remakingSince } = parseMetadata(
      parseXml(`<metadata>${mark('a', '7')}${mark('b', '9')}${mark('c', 'x')}</metadata>`),
    );

    expect(remakingSince).toEqual([7, 9, 0]);
    expect(metadataText(buildRemaking(7))).toBe('<remaking since="7"/>');
  });

  it('keeps any printable ASCII uid exactly', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[\x20-\x7e]{1,128}$/), (uid) => {
        expect(read(buildIdentity({ ...IDENTITY, uid })).identity?.uid).toBe(uid);
      }),
    );
  });

  it('finds its elements under the prefix that libvirt or an administrator chose', () => {
    const xml = `<metadata><x:lease xmlns:x="${METADATA.lease.uri}" expiresAt="8"/></metadata>`;

    expect(parseMetadata(parseXml(xml)).expiresAt).toBe(8);
  });

  it('takes no element of another namespace for its own', () => {
    expect(
      parseMetadata(parseXml('<metadata><lease xmlns="urn:other" expiresAt="8"/></metadata>')).expiresAt,
    ).toBeNull();
  });

  it('writes a setMetadata text without namespace, which libvirt adds itself', () => {
    expect(metadataText(buildLabels({ a: 'b' }))).toBe('<labels><label key="a" value="b"/></labels>');
  });

  it('says an unreadable element is absent, except protection, which protects', () => {
    const xml = Object.entries(METADATA)
      .map(([name, { uri }]) => `<${name} xmlns="${uri}"/>`)
      .join('');

    const metadata = parseMetadata(parseXml(`<metadata>${xml}</metadata>`));

    expect(metadata).toMatchObject({
      identity: null,
      phase: null,
      startedAt: null,
      expiresAt: null,
      address: null,
    });
    expect(metadata.protected).toBe(true);
    expect(metadata.deleting).toEqual({ since: 0, reason: '', graceUntil: null });
  });

  it('takes a time that no Date can hold for unreadable', () => {
    const lease = (expiresAt: string) =>
      parseMetadata(
        parseXml(`<metadata><lease xmlns="${METADATA.lease.uri}" expiresAt="${expiresAt}"/></metadata>`),
      ).expiresAt;

    expect(lease('999999999999999')).toBe(999_999_999_999_999);
    expect(lease('9999999999999999')).toBeNull();
  });

  it('reduces an error to one bounded line of ASCII', () => {
    const error = `line one\nline two\u0000é ${'x'.repeat(1000)}`;

    const text = read(
      buildPhase({ phase: 'failed', seeded: false, startRefused: false, attempt: 0, deadline: 1, error }),
    ).phase?.error;

    expect(text).toMatch(/^line one line two x+$/);
    expect(text).toHaveLength(300);
  });
});
