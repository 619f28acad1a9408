/**
 * How far the host's clock is from ours. No call of libvirt tells the time; what does is the modification time of a file
 * that was made just now. So an empty volume with a name of its own is made, looked at and deleted at once: the one thing
 * that an examination writes. The collector compares volumes' times with its own, hence the interest.
 */
import type { StoragePoolHandle, StorageVolHandle } from '../../libvirt/objects.ts';
import { buildRawVolumeXml, parseVolumeXml } from '../volume-xml.ts';
import type { DaemonCalls } from './daemon-calls.ts';
import { type Finding, fault, fine } from './finding.ts';
import type { ExaminedPool } from './pool-check.ts';

/** What time synchronisation keeps is far below; what is beyond it has none, and grows. */
const MAX_DIFFERENCE_MS = 30_000;
const PROBE_PREFIX = 'kvmfn-clock-';
/** An examination that ended between making its volume and deleting it is long over by then. */
const LEFT_OVER_AFTER_MS = 10 * 60_000;
const SWEEP_AT_MOST = 10;

export interface ClockOptions {
  /** Milliseconds since the epoch, by the clock to compare with. */
  readonly now: () => number;
  readonly randomUuid: () => string;
}

export interface ClockReading {
  /** By our clock, before the file was made and after. */
  readonly sentAt: number;
  readonly answeredAt: number;
  /** By the other clock, in between; null when the daemon does not say. */
  readonly hostTime: number | null;
  /** A netfs pool shows the clock of its file server. */
  readonly poolType: string;
}

export async function checkClock(
  daemon: DaemonCalls,
  { handle: pool, type: poolType }: ExaminedPool,
  { now, randomUuid }: ClockOptions,
): Promise<Finding> {
  const name = `${PROBE_PREFIX}${randomUuid()}`;
  const sentAt = now();
  const { vol } = await daemon.call('storageVolCreateXml', {
    pool,
    xml: buildRawVolumeXml(name, 0),
    flags: 0,
  });
  const answeredAt = now();
  let hostTime: number | null;
  try {
    hostTime = await modifiedAt(daemon, vol);
  } finally {
    // One that could not be deleted is found by a later examination.
    await daemon.finallyCall('storageVolDelete', { vol, flags: 0 }).catch(() => undefined);
  }
  if (hostTime !== null) await sweep(daemon, pool, hostTime).catch(() => undefined);
  return judgeClock({ sentAt, answeredAt, hostTime, poolType });
}

/** Pure. */
export function judgeClock({ sentAt, answeredAt, hostTime, poolType }: ClockReading): Finding {
  if (hostTime === null) return fine('not checked: this daemon does not show when a volume was made');
  const whose = poolType === 'netfs' ? 'the clock of the pool’s file server' : 'the host’s clock';
  const differenceMs = hostTime - (sentAt + answeredAt) / 2;
  const uncertainMs = Math.max(0, answeredAt - sentAt) / 2;
  // Made in between by both clocks: they agree as closely as can be told.
  if (Math.abs(differenceMs) <= uncertainMs) return fine(`${whose} agrees within ${seconds(uncertainMs)} s`);
  const found = `${whose} is ${seconds(Math.abs(differenceMs))} s ${differenceMs > 0 ? 'ahead' : 'behind'} (± ${seconds(uncertainMs)} s)`;
  return Math.abs(differenceMs) - uncertainMs <= MAX_DIFFERENCE_MS
    ? fine(found)
    : fault(found, 'synchronise it (Debian: apt install systemd-timesyncd && timedatectl set-ntp true)');
}

/** Deletes what examinations that were cut off have left, told by the host's own clock. */
async function sweep(daemon: DaemonCalls, pool: StoragePoolHandle, hostTime: number): Promise<void> {
  const { vols } = await daemon.call('storagePoolListAllVolumes', { pool, needResults: 1, flags: 0 });
  for (const vol of vols.filter(({ name }) => name.startsWith(PROBE_PREFIX)).slice(0, SWEEP_AT_MOST)) {
    const madeAt = await modifiedAt(daemon, vol);
    if (madeAt !== null && madeAt + LEFT_OVER_AFTER_MS < hostTime) {
      await daemon.call('storageVolDelete', { vol, flags: 0 });
    }
  }
}

async function modifiedAt(daemon: DaemonCalls, vol: StorageVolHandle): Promise<number | null> {
  const { xml } = await daemon.call('storageVolGetXmlDesc', { vol, flags: 0 });
  return parseVolumeXml(xml).modifiedAt;
}

const seconds = (ms: number): string => (ms / 1000).toFixed(ms < 10_000 ? 2 : 0);
