import { describe, expect, it } from 'vitest';
import { buildPage } from '../../../lib/lambda/page.ts';
import { fakeInstance } from './fake-fleet.ts';

describe('buildPage', () => {
  it('ends a page before it is larger than Lambda can carry, and goes on from there', () => {
    const reason = 'x'.repeat(100_000);
    const instances = Array.from({ length: 60 }, (_, index) =>
      fakeInstance({ host: 'kvm-a', name: `vm-${String(index).padStart(2, '0')}`, reason }),
    );

    const first = buildPage({ instances, hosts: [] }, { limit: 1000 });
    const cursor = Buffer.from(first.nextCursor ?? '', 'base64url').toString('utf8');
    const second = buildPage({ instances, hosts: [] }, { limit: 1000, cursor });

    expect(Buffer.byteLength(JSON.stringify(first))).toBeLessThan(5 * 1024 * 1024);
    expect([...first.instances, ...second.instances].map(({ name }) => name)).toEqual(
      instances.map(({ name }) => name),
    );
    expect(second.nextCursor).toBeNull();
  });

  it('shows a single instance that is larger than a page rather than never getting past it', () => {
    const instances = [fakeInstance({ host: 'kvm-a', name: 'a', reason: 'x'.repeat(5 * 1024 * 1024) })];

    expect(buildPage({ instances, hosts: [] }, { limit: 10 })).toMatchObject({
      instances: [{ name: 'a' }],
      nextCursor: null,
    });
  });
});
