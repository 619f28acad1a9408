/** How fast a file goes into a volume on the host, and what memory that takes of this project's process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, rm } from 'node:fs/promises';
import { buildSparseVolumeXml } from '../../lib/image/image-volumes.ts';
import type { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { ERROR_CODE, LibvirtError } from '../../lib/libvirt/errors.ts';
import { run } from '../lab/commands.ts';
import { pathInPool } from '../lab/lab.ts';
import { POOL } from '../lab/topology.ts';
import { BENCH_HOST, type BenchHost } from './bench-host.ts';
import { judgeRatio, judgeWorst, type Measurement, type Series } from './judgement.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import {
  libvirtUri,
  OURS,
  type PeerPrograms,
  peerSettings,
  startOwnClient,
  VIRSH,
} from './peers/contestants.ts';
import type { ReadyOrder, UploadOrder } from './peers/orders.ts';
import type { Timed } from './peers/warm-peer.ts';
import { watchGrowth } from './resident-memory.ts';
import { type Contestant, type RunControl, runRounds, seriesOf } from './rounds.ts';
import { createUploadFile, MIB, type UploadFile } from './upload-file.ts';

const MEBIBYTES = { usual: 512, quick: 64 };
const ROUNDS = 5;
const VOLUME = 'kvmfn-bench-upload';
const TIMEOUT_MS = 120_000;
/** What lib/ssh agrees on with OpenSSH; OpenSSH itself prefers ChaCha20-Poly1305. */
const OWN_CIPHER = 'aes256-gcm@openssh.com';
const SSH_CAT = 'ssh cat';
const SSH_CAT_OWN_CIPHER = 'ssh cat, AES-GCM';

export interface UploadParts {
  readonly host: BenchHost;
  readonly programs: PeerPrograms;
}

/** Sends the file into `copy`, where it lies for this process. Returns milliseconds. */
type Send = (copy: string, signal: AbortSignal) => Promise<number>;

export async function measureUploads(
  { host, programs }: UploadParts,
  options: BenchOptions,
  control: RunControl,
): Promise<Measurement> {
  const mebibytes = options.quick ? MEBIBYTES.quick : MEBIBYTES.usual;
  await using session = await host.connect();
  await using file = await createUploadFile(mebibytes * MIB, host.inbox('.').here);
  await using _ = { [Symbol.asyncDispose]: () => deleteVolume(session.connection) };
  const growth: number[] = [];
  const volume = (name: string, send: Send) =>
    contestant(name, file, pathInPool(BENCH_HOST.name, VOLUME), send, () =>
      createVolume(session.connection, file.bytes),
    );
  const copied = host.inbox('copy');
  const cat = (name: string, cipher: readonly string[]) =>
    contestant(
      name,
      file,
      copied.here,
      (_copy, signal) => sshCat(host, file, copied.onHost, cipher, signal),
      () => rm(copied.here, { force: true }),
    );

  const measure = `upload ${mebibytes} MiB`;
  const series = await runRounds(
    {
      measure,
      unit: 'MB/s',
      rounds: roundsFor(options, ROUNDS),
      contestants: [
        volume(OURS, async (_copy, signal) => {
          const { ms, growthMiB } = await ownUpload({ host, programs }, file, signal);
          growth.push(growthMiB);
          return ms;
        }),
        cat(SSH_CAT, []),
        cat(SSH_CAT_OWN_CIPHER, ['-c', OWN_CIPHER]),
        volume(VIRSH, (_copy, signal) => virshUpload(host, file, signal)),
      ],
    },
    control,
  );
  const memory: Series = {
    measure: `memory growth, ${measure}`,
    contestant: OURS,
    unit: 'MiB',
    samples: growth,
  };
  const against = (peer: string, value: number) =>
    judgeRatio(seriesOf(series, OURS), seriesOf(series, peer), { bound: 'at least', value });
  return {
    series: [...series, memory],
    verdicts: [
      against(SSH_CAT, 1),
      against(SSH_CAT_OWN_CIPHER, 1),
      against(VIRSH, 1.2),
      judgeWorst(memory, { bound: 'at most', value: 64 }),
    ],
  };
}

/** Checks the bytes of everybody's first copy; and lets the disk finish before the next one begins. */
function contestant(
  name: string,
  file: UploadFile,
  copy: string,
  send: Send,
  prepare: () => Promise<unknown>,
): Contestant {
  let isChecked = false;
  return {
    name,
    sample: async (signal) => {
      await prepare();
      await run('sync', [], { timeoutMs: TIMEOUT_MS, signal });
      const ms = await send(copy, signal);
      if (!isChecked) await file.check(copy);
      isChecked = true;
      return file.bytes / 1000 / ms;
    },
  };
}

/** In a fresh process each time: one that has uploaded before has the memory already. */
async function ownUpload({ host, programs }: UploadParts, file: UploadFile, signal: AbortSignal) {
  await using peer = await startOwnClient(programs, peerSettings(host));
  // What it takes to start is not what an upload takes.
  const ready: ReadyOrder = { op: 'ready' };
  await peer.ask(ready, signal);
  const order: UploadOrder = { op: 'upload', ...host.direct, volume: VOLUME, file: file.path };
  const { result, growthMiB } = await watchGrowth(peer.pid, () => peer.ask<Timed>(order, signal));
  return { ms: result.ms, growthMiB };
}

async function virshUpload(host: BenchHost, file: UploadFile, signal: AbortSignal): Promise<number> {
  const target = ['--pool', POOL.name, '--vol', VOLUME, '--file', file.path];
  const startedAt = performance.now();
  await run('virsh', ['--connect', libvirtUri(host, host.direct), '--quiet', 'vol-upload', ...target], {
    timeoutMs: TIMEOUT_MS,
    signal,
  });
  return performance.now() - startedAt;
}

async function sshCat(
  { access, direct }: BenchHost,
  file: UploadFile,
  path: string,
  cipher: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  await using source = await open(file.path);
  const login = ['-F', access.configFile, '-p', `${direct.port}`, `${access.user}@${direct.address}`];
  const startedAt = performance.now();
  const child = spawn('ssh', [...cipher, ...login, `cat > ${path}`], {
    stdio: [source.fd, 'ignore', 'inherit'],
    signal,
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`ssh ended with ${code}`);
  return performance.now() - startedAt;
}

/** A new one each time, and without blocks of its own, as an import makes it. */
async function createVolume(connection: LibvirtConnection, bytes: number): Promise<void> {
  await deleteVolume(connection);
  const { pool } = await connection.call('storagePoolLookupByName', { name: POOL.name });
  const xml = buildSparseVolumeXml(VOLUME, bytes);
  await connection.call('storageVolCreateXml', { pool, xml, flags: 0 });
}

async function deleteVolume(connection: LibvirtConnection): Promise<void> {
  try {
    const { pool } = await connection.call('storagePoolLookupByName', { name: POOL.name });
    const { vol } = await connection.call('storageVolLookupByName', { pool, name: VOLUME });
    await connection.call('storageVolDelete', { vol, flags: 0 });
  } catch (error) {
    if (!(error instanceof LibvirtError) || error.code !== ERROR_CODE.noStorageVol) throw error;
  }
}
