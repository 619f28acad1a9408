import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createEmbeddedLibvirt } from '../../../infra/local/hypervisor/embedded-libvirt.ts';
import { importImage } from '../../../lib/image/image-import.ts';
import { imageState } from '../../../lib/image/image-state.ts';
import { TailKeeper } from '../../../lib/image/stored-tail.ts';
import { LibvirtConnection } from '../../../lib/libvirt/index.ts';
import { ImageServer, tinyRawImage } from '../../contract/fleet-harness.ts';

describe('TailKeeper', () => {
  it('keeps the end of what passed by, whatever the chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 1_500_000 }), { maxLength: 8 }), (lengths) => {
        const tail = new TailKeeper();
        const chunks = lengths.map((length, index) => Buffer.alloc(length, index + 1));
        for (const chunk of chunks) tail.push(chunk);

        expect(tail.bytes.equals(Buffer.concat(chunks).subarray(-2 * 1024 * 1024))).toBe(true);
      }),
      { numRuns: 10 },
    );
  });
});

describe('an upload that the daemon confirms without having kept its end', () => {
  it('is not taken for complete', async () => {
    const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
    const disk = tinyRawImage();
    disk.write('the end', disk.length - 16);
    const image = await ImageServer.start(disk);
    const connection = await LibvirtConnection.open(daemon.connect());
    const { pool } = await connection.call('storagePoolLookupByName', { name: 'default' });
    const source = { name: 'tiny', url: image.url, format: 'raw', checksum: image.checksum } as const;
    // As a full disk leaves it: the daemon has said yes, and the last bytes are not there.
    const loseTheEnd = () => {
      for (const path of daemon.state.files.paths) {
        const bytes = daemon.state.files.get(path)?.bytes;
        if (bytes?.sizeBytes === disk.length) bytes.write(disk.length - 16, Buffer.alloc(16));
      }
    };
    daemon.faults.at('storageVolDownload', { kind: 'hook', hook: loseTheEnd });

    const attempt = importImage(connection, pool, source, {
      fetch,
      now: Date.now,
      deadlineAt: Date.now() + 60_000,
    });

    await expect(attempt).rejects.toMatchObject({ reason: 'no-space', retryable: true });
    expect((await imageState(connection, pool, source, { now: Date.now })).state).toBe('absent');
    await connection.close();
    await image.close();
  });
});
