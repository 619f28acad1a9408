/**
 * What an import promises, on whatever daemon: the same suite runs against the embedded hypervisor and a real libvirtd,
 * with images of two megabytes from a web server on loopback.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ImageError } from '../../lib/image/image-error.ts';
import { type ImportOptions, importImage } from '../../lib/image/image-import.ts';
import { baseVolumeName, type ImageSource } from '../../lib/image/image-source.ts';
import { imageState } from '../../lib/image/image-state.ts';
import type { LibvirtConnection, StoragePoolHandle } from '../../lib/libvirt/index.ts';
import { chunked, cutOff, type ImageServer, inTwoParts, startImageServer, whole } from './image-server.ts';
import { buildQcow2Disk, buildRawDisk, checksumOf } from './qcow2-disk.ts';

export interface ImageContractHost {
  /** The name of an active pool of type dir with 100 MiB of room. */
  readonly pool: string;
  /** A new session with the daemon; the suite closes it. */
  connect(): Promise<LibvirtConnection>;
  close(): Promise<void>;
}

const MIB = 1024 ** 2;
const ATTEMPT_MS = 60_000;
const VIRTUAL_BYTES = 64 * MIB;

export function imageContract(start: () => Promise<ImageContractHost>): void {
  let host: ImageContractHost;
  let server: ImageServer;
  let sessions: LibvirtConnection[];
  let connection: LibvirtConnection;
  let pool: StoragePoolHandle;
  let clockOffsetMs: number;
  let disk: Buffer;
  let source: ImageSource;

  // Every test has an image of its own, so that a pool which outlives the test disturbs none.
  let fill = 0;
  const now = (): number => Date.now() + clockOffsetMs;

  beforeEach(async () => {
    host = await start();
    fill += 1;
    disk = buildQcow2Disk({ virtualSizeBytes: VIRTUAL_BYTES, dataClusters: 32, fill });
    server = await startImageServer(whole(disk));
    source = { name: 'tiny', url: server.url, format: 'qcow2', checksum: checksumOf(disk) };
    sessions = [];
    clockOffsetMs = 0;
    connection = await open();
    ({ pool } = await connection.call('storagePoolLookupByName', { name: host.pool }));
    await removeVolumesOf(source);
  });

  afterEach(async () => {
    await removeVolumesOf(source);
    for (const session of sessions) await session.close();
    await server.close();
    await host.close();
  });

  describe('an import', () => {
    it('brings every byte to the pool and leaves no claim', async () => {
      const steps: number[] = [];

      const outcome = await run({ onProgress: (doneBytes) => steps.push(doneBytes) });

      expect(outcome).toBe('imported');
      const state = await look();
      expect(state).toMatchObject({ state: 'present', capacityBytes: VIRTUAL_BYTES });
      const volume = state.state === 'present' ? state.volume : '';
      expect((await contentOf(volume)).equals(disk)).toBe(true);
      expect(await volumeNames()).toEqual([volume, `${baseVolumeName(source)}.verdict.1`].sort());
      expect(steps.at(-1)).toBe(disk.length);
    });

    it('takes a raw disk, whose capacity is its length', async () => {
      disk = buildRawDisk(MIB + 512);
      server.answer(whole(disk));
      source = { ...source, format: 'raw', checksum: checksumOf(disk, 'sha512') };

      await run();

      expect(await look()).toMatchObject({ state: 'present', capacityBytes: MIB + 512 });
      await removeVolumesOf(source);
    });

    it('gives a base on which libvirt makes an overlay', async () => {
      await run();
      const state = await look();
      const path = state.state === 'present' ? state.path : '';
      const name = `overlay-of-${fill}`;
      const xml = `<volume><name>${name}</name><capacity>${VIRTUAL_BYTES * 2}</capacity>
        <target><format type='qcow2'/></target>
        <backingStore><path>${path}</path><format type='qcow2'/></backingStore></volume>`;

      const { vol } = await connection.call('storageVolCreateXml', { pool, xml, flags: 0 });

      const info = await connection.call('storageVolGetInfo', { vol });
      expect(info.capacity).toBe(BigInt(VIRTUAL_BYTES * 2));
      await connection.call('storageVolDelete', { vol, flags: 0 });
    });

    it('IM-01: fails as retryable and leaves no data when the body ends early', async () => {
      for (const answer of [cutOff(disk, MIB), chunked(disk, MIB)]) {
        server.answer(answer);

        const error = await failure(run({}, { ...source, sizeBytes: disk.length }));

        expect(error).toMatchObject({ name: 'ImageError', reason: 'truncated', retryable: true });
        expect(await dataVolumes()).toEqual([]);
        expect(await look()).toEqual({ state: 'absent' });
      }
      server.answer(whole(disk));
      expect(await run()).toBe('imported');
    });

    it('IM-02: creates nothing for an image whose size nobody says', async () => {
      server.answer(chunked(disk));

      const error = await failure(run());

      expect(error).toMatchObject({ reason: 'unknown-size', retryable: false });
      expect(await volumeNames()).toEqual([]);
      expect(await run({}, { ...source, sizeBytes: disk.length })).toBe('imported');
    });

    it('IM-05: removes what does not match the checksum, for good', async () => {
      server.answer(whole(buildQcow2Disk({ virtualSizeBytes: VIRTUAL_BYTES, dataClusters: 32, fill: 255 })));

      const error = await failure(run());

      expect(error).toMatchObject({ reason: 'checksum', retryable: false });
      expect(await dataVolumes()).toEqual([]);
      expect(await look()).toEqual({ state: 'absent' });
    });

    it('IM-05: does not touch a complete base, whatever its address serves now', async () => {
      await run();
      const before = await volumeNames();
      server.answer(whole(Buffer.from('another image')));

      const outcome = await run();

      expect(outcome).toBe('imported');
      expect(server.requests).toEqual(['GET /disk']);
      expect(await volumeNames()).toEqual(before);
      expect((await contentOf(`${baseVolumeName(source)}.1`)).equals(disk)).toBe(true);
    });

    it('IM-06: creates nothing for a file that is not what it is declared to be', async () => {
      const notDisks = [
        Buffer.concat([Buffer.from('fd377a585a00', 'hex'), disk]),
        Buffer.from(`<!DOCTYPE html><title>Sorry</title>${'<p>not here</p>'.repeat(100)}`),
        buildRawDisk(MIB),
      ];
      for (const bytes of notDisks) {
        server.answer(whole(bytes));

        const error = await failure(run());

        expect(error).toMatchObject({ reason: 'format', retryable: false });
        expect(await volumeNames()).toEqual([]);
      }
    });

    it('IM-07: creates nothing for a disk that names a file of the host', async () => {
      const hostile = Buffer.from(disk);
      hostile.writeBigUInt64BE(200n, 8);
      hostile.writeUInt32BE(11, 16);
      hostile.write('/etc/passwd', 200);
      server.answer(whole(hostile));
      source = { ...source, checksum: checksumOf(hostile) };

      const error = await failure(run());

      expect(error).toMatchObject({ reason: 'unsafe-header', retryable: false });
      expect(await volumeNames()).toEqual([]);
    });

    it('asks the pool for room before it writes', async () => {
      const announced = 2 ** 42;
      server.answer((_, response) => {
        response.writeHead(200, { 'content-length': announced });
        response.write(disk);
      });

      const error = await failure(run());

      expect(error).toMatchObject({ reason: 'no-space', retryable: true });
      expect(await dataVolumes()).toEqual([]);
    });
  });

  describe('time', () => {
    it('ends an attempt that the deadline overtakes, and takes it back', async () => {
      const deadlineAt = now() + ATTEMPT_MS;
      const onProgress = (doneBytes: number): void => {
        if (doneBytes >= MIB) clockOffsetMs = ATTEMPT_MS;
      };

      const error = await failure(run({ deadlineAt, onProgress }));

      expect(error).toMatchObject({ reason: 'too-slow' });
      expect(await dataVolumes()).toEqual([]);
      expect(await look()).toEqual({ state: 'absent' });
    });

    it('does not begin without time', async () => {
      const error = await failure(run({ deadlineAt: now() + 1_000 }));

      expect(error).toMatchObject({ reason: 'too-slow', retryable: true });
      expect(server.requests).toEqual([]);
    });

    it("ends with the caller's reason when the caller aborts, and takes it back", async () => {
      const caller = new AbortController();
      const gate = Promise.withResolvers<void>();
      server.answer(inTwoParts(disk, MIB, gate.promise));
      const reason = new Error('the invocation ends');

      const attempt = failure(run({ signal: caller.signal, onProgress: () => caller.abort(reason) }));

      expect(await attempt).toBe(reason);
      expect(await dataVolumes()).toEqual([]);
      gate.resolve();
    });
  });

  describe('several importers', () => {
    it('IM-09: one imports, the other is told that it is busy and sees how far', async () => {
      const gate = Promise.withResolvers<void>();
      server.answer(inTwoParts(disk, MIB, gate.promise));
      const halfway = Promise.withResolvers<void>();
      const onProgress = (doneBytes: number): void => {
        if (doneBytes >= MIB - 64 * 1024) halfway.resolve();
      };
      const first = run({ onProgress });
      await halfway.promise;

      expect(await importImage(await open(), pool, source, options())).toBe('busy');
      const during = await look();
      expect(during).toMatchObject({ state: 'importing', totalBytes: disk.length });
      expect(during.state === 'importing' && during.until > now()).toBe(true);
      expect(during.state === 'importing' && during.doneBytes < disk.length).toBe(true);

      gate.resolve();
      expect(await first).toBe('imported');
      expect(await look()).toMatchObject({ state: 'present' });
    });

    it('IM-09: ten at once make one base', async () => {
      const others = await Promise.all(Array.from({ length: 9 }, open));

      const outcomes = await Promise.all(
        [connection, ...others].map((session) => importImage(session, pool, source, options())),
      );

      expect(outcomes).toContain('imported');
      expect(await dataVolumes()).toHaveLength(1);
      expect(await look()).toMatchObject({ state: 'present' });
    });

    it('IM-10: after a worker died in the middle the next begins afresh, once the claim has ended', async () => {
      const gate = Promise.withResolvers<void>();
      server.answer(inTwoParts(disk, MIB, gate.promise));
      const doomed = await open();
      const first = failure(
        importImage(doomed, pool, source, { ...options(), onProgress: () => void doomed.close() }),
      );
      expect(await first).toMatchObject({ name: 'LibvirtTransportError' });
      gate.resolve();
      server.answer(whole(disk));

      const left = await look();
      expect(left).toMatchObject({ state: 'importing' });
      expect(await run()).toBe('busy');
      clockOffsetMs = (left.state === 'importing' ? left.until : 0) - Date.now() + 1;
      expect(await look()).toEqual({ state: 'absent' });
      expect(await run()).toBe('imported');

      expect(await volumeNames()).toEqual(
        [`${baseVolumeName(source)}.2`, `${baseVolumeName(source)}.verdict.2`].sort(),
      );
      expect((await contentOf(`${baseVolumeName(source)}.2`)).equals(disk)).toBe(true);
    });

    it('an importer that outlives its claim spoils nothing of its successor', async () => {
      const { late, gate } = await outliveClaim();
      server.answer(whole(disk));

      expect(await run()).toBe('imported');
      gate.resolve();

      expect(await late).toBe('busy');
      expect(await dataVolumes()).toEqual([`${baseVolumeName(source)}.2`]);
      expect(await look()).toMatchObject({ state: 'present', volume: `${baseVolumeName(source)}.2` });
      expect((await contentOf(`${baseVolumeName(source)}.2`)).equals(disk)).toBe(true);
    });

    it('a successor stands back when its predecessor was in time after all', async () => {
      const { late, gate } = await outliveClaim();
      // Between the successor's look and its claim.
      const fetchAfterTheOther: typeof fetch = async (...request) => {
        gate.resolve();
        await late;
        return fetch(...request);
      };

      expect(await run({ fetch: fetchAfterTheOther })).toBe('imported');

      expect(await late).toBe('imported');
      expect(await dataVolumes()).toEqual([`${baseVolumeName(source)}.1`]);
      expect(await look()).toMatchObject({ state: 'present', volume: `${baseVolumeName(source)}.1` });
    });
  });

  async function open(): Promise<LibvirtConnection> {
    const session = await host.connect();
    sessions.push(session);
    return session;
  }

  function options(): ImportOptions {
    return { fetch, now, deadlineAt: now() + ATTEMPT_MS };
  }

  /** An importer that is in the middle when its claim has ended; what it lacks comes when the gate is opened. */
  async function outliveClaim() {
    const gate = Promise.withResolvers<void>();
    server.answer(inTwoParts(disk, MIB, gate.promise));
    const begun = Promise.withResolvers<void>();
    const late = importImage(await open(), pool, source, {
      ...options(),
      now: Date.now,
      onProgress: () => begun.resolve(),
    });
    await begun.promise;
    clockOffsetMs = 2 * ATTEMPT_MS;
    return { late, gate };
  }

  function run(changes: Partial<ImportOptions> = {}, of: ImageSource = source) {
    return importImage(connection, pool, of, { ...options(), ...changes });
  }

  function look() {
    return imageState(connection, pool, source, { now });
  }

  async function volumeNames(): Promise<string[]> {
    const { vols } = await connection.call('storagePoolListAllVolumes', { pool, needResults: 1, flags: 0 });
    return vols
      .map(({ name }) => name)
      .filter((name) => name.startsWith(baseVolumeName(source)))
      .sort();
  }

  async function dataVolumes(): Promise<string[]> {
    return (await volumeNames()).filter((name) => /\.(?:qcow2|raw)\.\d+$/.test(name));
  }

  async function contentOf(name: string): Promise<Buffer> {
    const { vol } = await connection.call('storageVolLookupByName', { pool, name });
    const parts: Uint8Array[] = [];
    for await (const part of connection.download('storageVolDownload', {
      vol,
      offset: 0n,
      length: 0n,
      flags: 0,
    })) {
      parts.push(Buffer.from(part));
    }
    return Buffer.concat(parts);
  }

  async function removeVolumesOf(image: ImageSource): Promise<void> {
    const { vols } = await connection.call('storagePoolListAllVolumes', { pool, needResults: 1, flags: 0 });
    for (const vol of vols.filter(({ name }) => name.startsWith(baseVolumeName(image)))) {
      await connection.call('storageVolDelete', { vol, flags: 0 });
    }
  }
}

async function failure(attempt: Promise<unknown>): Promise<ImageError | Error> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('it succeeded');
}
