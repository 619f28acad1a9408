/**
 * Imports under every fault of the daemon's side. What must hold at every moment: what looks present is whole, and what
 * was present once is never written or deleted again, since a VM may stand on it.
 */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../infra/local/hypervisor/embedded-libvirt.ts';
import type { Fault } from '../../infra/local/hypervisor/fault-plan.ts';
import { type ImportOutcome, importImage } from '../../lib/image/image-import.ts';
import { baseVolumeName, type ImageSource } from '../../lib/image/image-source.ts';
import { imageState } from '../../lib/image/image-state.ts';
import { LibvirtConnection } from '../../lib/libvirt/index.ts';
import { buildQcow2Disk, checksumOf } from '../contract/qcow2-disk.ts';

const ATTEMPT_MS = 60_000;
/** For the one call that is never answered. */
const SHORT_TIMEOUT_MS = 40;
const EIO = 5;

const disk = buildQcow2Disk({ virtualSizeBytes: 64 * 1024 ** 2, dataClusters: 1, fill: 3 });
const damaged = buildQcow2Disk({ virtualSizeBytes: 64 * 1024 ** 2, dataClusters: 1, fill: 4 });
const source: ImageSource = {
  name: 'tiny',
  url: 'http://images.example/disk',
  format: 'qcow2',
  checksum: checksumOf(disk),
};

function serving(bytes: Buffer): typeof fetch {
  return async () =>
    new Response(new Uint8Array(bytes), { headers: { 'content-length': String(bytes.length) } });
}

/** One worker's attempt on a session of its own; its clock stands still, so that it never gives up by itself. */
async function attempt(
  daemon: EmbeddedLibvirt,
  startedAt: number,
  { bytes = disk, timeoutMs }: { readonly bytes?: Buffer; readonly timeoutMs?: number | undefined } = {},
): Promise<ImportOutcome | 'failed'> {
  let connection: LibvirtConnection | undefined;
  try {
    connection = await LibvirtConnection.open(daemon.connect(), { timeoutMs });
    const { pool } = await connection.call('storagePoolLookupByName', { name: 'default' });
    return await importImage(connection, pool, source, {
      fetch: serving(bytes),
      now: () => startedAt,
      deadlineAt: startedAt + ATTEMPT_MS,
    });
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw error;
    return 'failed';
  } finally {
    await connection?.close();
  }
}

async function lookAt(daemon: EmbeddedLibvirt, now: number) {
  const connection = await LibvirtConnection.open(daemon.connect());
  try {
    const { pool } = await connection.call('storagePoolLookupByName', { name: 'default' });
    return await imageState(connection, pool, source, { now: () => now });
  } finally {
    await connection.close();
  }
}

function contentAt(daemon: EmbeddedLibvirt, path: string): Buffer {
  const file = daemon.state.files.get(path);
  return file === undefined ? Buffer.alloc(0) : Buffer.from(file.bytes.read(0, file.bytes.sizeBytes));
}

describe('an import that is disturbed at one call', () => {
  const disturbances: readonly Fault[] = [
    { kind: 'cut-before' },
    { kind: 'cut-after' },
    { kind: 'no-answer' },
    { kind: 'error', code: 38, int1: EIO },
  ];

  it.each(disturbances)('converges with the next one: $kind', async (fault) => {
    const undisturbed = createEmbeddedLibvirt({ name: 'kvm-a' });
    expect(await attempt(undisturbed, 0)).toBe('imported');
    const calls = undisturbed.faults.calls;
    expect(calls).toBeGreaterThan(8);

    for (let call = 1; call <= calls; call += 1) {
      const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
      daemon.faults.atCall(call, fault);

      const timeoutMs = fault.kind === 'no-answer' ? SHORT_TIMEOUT_MS : undefined;
      const first = await attempt(daemon, 0, { timeoutMs });
      daemon.faults.clear();
      const between = await lookAt(daemon, 0);
      const second = await attempt(daemon, 2 * ATTEMPT_MS);

      const after = await lookAt(daemon, 2 * ATTEMPT_MS);
      const where = `${fault.kind} at call ${call} of ${calls}`;
      expect(between.state === 'present' || first !== 'imported', where).toBe(true);
      expect([second, after.state], where).toEqual(['imported', 'present']);
      const path = after.state === 'present' ? after.path : '';
      expect(contentAt(daemon, path).equals(disk), where).toBe(true);
      expect(dataFiles(daemon), where).toEqual([path]);
    }
    console.log(`image import: ${fault.kind} at each of ${calls} calls`);
  });
});

describe('several importers whose calls overtake one another', () => {
  const SCHEDULES = 200;

  it(`never spoil a base: ${SCHEDULES} schedules`, async () => {
    let takeovers = 0;
    for (let seed = 1; seed <= SCHEDULES; seed += 1) {
      const random = seededRandom(seed);
      const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
      daemon.faults.always({ kind: 'hook', hook: () => turns(Math.floor(random() * 12)) });
      if (random() < 0.5) {
        const call = 1 + Math.floor(random() * 30);
        daemon.faults.atCall(call, { kind: random() < 0.5 ? 'cut-before' : 'cut-after' });
      }
      const relied = new Set<string>();
      let running = true;

      // Every worker believes that all claims made before it have ended.
      const workers = Array.from({ length: 2 + Math.floor(random() * 3) }, async (_, worker) => {
        await turns(Math.floor(random() * 200));
        return attempt(daemon, worker * 2 * ATTEMPT_MS, { bytes: random() < 0.15 ? damaged : disk });
      });
      const reader = (async () => {
        while (running) {
          const seen = await lookAt(daemon, 0).catch(() => null);
          if (seen?.state !== 'present') continue;
          expect(contentAt(daemon, seen.path).equals(disk), `schedule ${seed}: present and not whole`).toBe(
            true,
          );
          relied.add(seen.path);
        }
      })();
      await Promise.all(workers);
      running = false;
      await reader;
      daemon.faults.clear();

      const last = await attempt(daemon, 100 * ATTEMPT_MS);
      const end = await lookAt(daemon, 100 * ATTEMPT_MS);
      expect([last, end.state], `schedule ${seed}`).toEqual(['imported', 'present']);
      for (const path of relied) {
        expect(contentAt(daemon, path).equals(disk), `schedule ${seed}: ${path} was relied upon`).toBe(true);
      }
      if (end.state === 'present' && !end.volume.endsWith('.1')) takeovers += 1;
    }
    expect(takeovers).toBeGreaterThan(SCHEDULES / 20);
    console.log(`image import: ${SCHEDULES} schedules, ${takeovers} ended with a later generation`);
  }, 240_000);
});

function dataFiles(daemon: EmbeddedLibvirt): string[] {
  const folder = '/var/lib/libvirt/images';
  return daemon.state.files
    .namesIn(folder)
    .filter((name) => /^\d+$/.test(name.slice(baseVolumeName(source).length + 1)))
    .map((name) => `${folder}/${name}`);
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await setImmediate();
}

/** mulberry32: the same seed gives the same schedule of delays. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
