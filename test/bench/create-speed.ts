/**
 * How long it takes to make a VM and to take it away again, its image being on the host: this project beside what a script
 * around virsh does. Neither waits for the guest.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { baseVolumeName } from '../../lib/image/image-source.ts';
import { parseVolumeName } from '../../lib/kvm/volume-names.ts';
import type { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { buildQcow2Disk, checksumOf } from '../contract/qcow2-disk.ts';
import { run } from '../lab/commands.ts';
import { POOL } from '../lab/topology.ts';
import type { BenchHost } from './bench-host.ts';
import { BENCH_FLEET, describeVm, removeVms } from './bench-vms.ts';
import { judgeRatio, type Measurement, type Series, type Verdict } from './judgement.ts';
import type { NetworkWays, Way } from './network-ways.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import { libvirtUri, OURS, type PeerPrograms, peerSettings, startOwnClient } from './peers/contestants.ts';
import type { BenchImage, VmOrder } from './peers/orders.ts';
import type { Timed } from './peers/warm-peer.ts';
import { type Contestant, type RunControl, runRounds, seriesOf } from './rounds.ts';

const ROUNDS = 7;
const NAME_PREFIX = 'kvmfn-create-';
const MIB = 1024 ** 2;
/** What this project's seed of an empty user-data takes. */
const SEED_BYTES = 376_832;
/** A script that calls virsh for each step: a connection each. */
const SCRIPT = 'virsh, a command a step';
/** One that hands all of them to one virsh. */
const BATCH = 'virsh, one connection';

export interface CreateParts {
  readonly host: BenchHost;
  readonly ways: NetworkWays;
  readonly programs: PeerPrograms;
}

export async function measureCreates(
  { host, ways, programs }: CreateParts,
  options: BenchOptions,
  control: RunControl,
): Promise<Measurement> {
  await using session = await host.connect();
  await using files = await createFiles();
  await using own = await startOwnClient(programs, peerSettings(host));
  await using _ = { [Symbol.asyncDispose]: () => removeAll(session.connection, files.image) };
  await removeAll(session.connection, files.image);

  const order = async (op: VmOrder['op'], way: Way, vm: string, signal: AbortSignal) => {
    const { ms } = await own.ask<Timed>({ op, ...way.endpoint, vm, image: files.image }, signal);
    return ms;
  };
  control.log('bringing the image to the host');
  await order('create', ways.loopback, `${NAME_PREFIX}first`, control.signal);
  await order('delete', ways.loopback, `${NAME_PREFIX}first`, control.signal);
  const base = await findBase(session.connection, files.image);

  const compare = async (way: Way): Promise<Series[]> => {
    const deletes = new Map<string, number[]>();
    const contestant = (name: string, life: Life): Contestant => ({
      name,
      sample: async (signal) => {
        const vm = `${NAME_PREFIX}${crypto.randomUUID().slice(0, 8)}`;
        const { createMs, deleteMs } = await life(vm, signal);
        deletes.set(name, [...(deletes.get(name) ?? []), deleteMs]);
        return createMs;
      },
    });
    const script = (isBatch: boolean): Life => virshLife(host, way, { files, base, isBatch });
    const contestants = [
      contestant(OURS, async (vm, signal) => ({
        createMs: await order('create', way, vm, signal),
        deleteMs: await order('delete', way, vm, signal),
      })),
      contestant(SCRIPT, script(false)),
      contestant(BATCH, script(true)),
    ];
    const rounds = roundsFor(options, ROUNDS);
    const creates = await runRounds(
      { measure: `create, ${way.name}`, unit: 'ms', rounds, contestants },
      control,
    );
    const measure = `delete, ${way.name}`;
    const taken = [...deletes].map(([name, samples]): Series => {
      return { measure, contestant: name, unit: 'ms', samples: samples.slice(-rounds) };
    });
    return [...creates, ...taken];
  };

  const near = await compare(ways.loopback);
  const far = await compare(ways.delayed);
  return { series: [...near, ...far], verdicts: [...against(near, 0.75), ...against(far, 0.5)] };
}

type Life = (
  vm: string,
  signal: AbortSignal,
) => Promise<{ readonly createMs: number; readonly deleteMs: number }>;

function against(series: readonly Series[], value: number): Verdict[] {
  const measures = [...new Set(series.map(({ measure }) => measure))];
  return measures.map((measure) => {
    const one = series.filter((each) => each.measure === measure);
    return judgeRatio(seriesOf(one, OURS), seriesOf(one, SCRIPT), { bound: 'at most', value });
  });
}

interface Files extends AsyncDisposable {
  readonly image: BenchImage;
  readonly seed: string;
  /** For the definition of a VM. */
  readonly xml: string;
}

async function createFiles(): Promise<Files> {
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-create-'));
  const disk = buildQcow2Disk({ virtualSizeBytes: 64 * MIB, dataClusters: 4, fill: 1 });
  await writeFile(join(folder, 'image'), disk);
  await writeFile(join(folder, 'seed'), Buffer.alloc(SEED_BYTES, 1));
  return {
    image: { url: pathToFileURL(join(folder, 'image')).href, checksum: checksumOf(disk) },
    seed: join(folder, 'seed'),
    xml: join(folder, 'vm.xml'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

const backedBy = (base: string) => ['--backing-vol', base, '--backing-vol-format', 'qcow2'];

/** The fewest steps that end in the same VM; its seed image and its definition lie ready. */
function virshLife(
  host: BenchHost,
  way: Way,
  { files, base, isBatch }: { readonly files: Files; readonly base: string; readonly isBatch: boolean },
): Life {
  const virsh = async (steps: readonly string[][], signal: AbortSignal): Promise<number> => {
    const connect = ['--connect', libvirtUri(host, way.endpoint), '--quiet'];
    const commands = isBatch ? [[steps.map((step) => step.join(' ')).join('; ')]] : steps;
    const startedAt = performance.now();
    for (const command of commands) await run('virsh', [...connect, ...command], { signal });
    return performance.now() - startedAt;
  };
  return async (vm, signal) => {
    const { xml, disk, seed } = describeVm(vm);
    await writeFile(files.xml, xml);
    const createMs = await virsh(
      [
        ['vol-create-as', POOL.name, seed, `${SEED_BYTES}`, '--format', 'raw'],
        ['vol-upload', '--pool', POOL.name, seed, files.seed],
        [...['vol-create-as', POOL.name, disk, '10G', '--format', 'qcow2'], ...backedBy(base)],
        ['define', files.xml],
        ['autostart', vm],
        ['start', vm],
      ],
      signal,
    );
    const deleteMs = await virsh(
      [
        ['destroy', vm],
        ['undefine', vm],
        ['vol-delete', '--pool', POOL.name, disk],
        ['vol-delete', '--pool', POOL.name, seed],
      ],
      signal,
    );
    return { createMs, deleteMs };
  };
}

/** The image as the provider brought it to the host. */
async function findBase(connection: LibvirtConnection, image: BenchImage): Promise<string> {
  const found = (await volumesOf(connection, image)).find(({ name }) => /\.qcow2\.\d+$/.test(name));
  if (found === undefined) throw new Error('the image is not in the pool');
  return found.name;
}

/** Also what a run that was killed has left behind. */
async function removeAll(connection: LibvirtConnection, image: BenchImage): Promise<void> {
  await removeVms(connection, NAME_PREFIX);
  for (const vol of await volumesOf(connection, image)) {
    await connection.call('storageVolDelete', { vol, flags: 0 });
  }
}

async function volumesOf(connection: LibvirtConnection, image: BenchImage) {
  const base = baseVolumeName({ ...image, name: 'tiny', format: 'qcow2' });
  const { pool } = await connection.call('storagePoolLookupByName', { name: POOL.name });
  const { vols } = await connection.call('storagePoolListAllVolumes', { pool, needResults: 1, flags: 0 });
  return vols.filter(
    ({ name }) => name.startsWith(`${base}.`) || parseVolumeName(name)?.fleet === BENCH_FLEET,
  );
}
