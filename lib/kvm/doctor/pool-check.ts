/** The storage pool: there, running, made of files, and not full. */
import { STORAGE_POOL_STATE } from '../../libvirt/constants.ts';
import { ERROR_CODE } from '../../libvirt/errors.ts';
import type { StoragePoolHandle } from '../../libvirt/objects.ts';
import { hasCode } from '../error-classification.ts';
import { FILE_POOL_TYPES } from '../pool.ts';
import { parsePoolXml } from '../volume-xml.ts';
import type { DaemonCalls } from './daemon-calls.ts';
import { type Finding, fault, fine } from './finding.ts';

const BYTES_PER_GIB = 1_073_741_824;
/** Overlays grow while their guests run: with less than this the next guest that writes is paused. */
const LEAST_FREE_BYTES = BYTES_PER_GIB;

export interface PoolFacts {
  readonly name: string;
  readonly type: string;
  readonly targetPath: string | null;
  readonly state: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
}

export interface ExaminedPool {
  readonly handle: StoragePoolHandle;
  readonly type: string;
}

/** @param onUsable told of a pool in which volumes can be made, be it full */
export async function checkPool(
  daemon: DaemonCalls,
  name: string,
  onUsable: (pool: ExaminedPool) => void,
): Promise<Finding> {
  let handle: StoragePoolHandle;
  try {
    ({ pool: handle } = await daemon.call('storagePoolLookupByName', { name }));
  } catch (error) {
    if (!hasCode(error, ERROR_CODE.noStoragePool)) throw error;
    return fault(
      `there is no storage pool ${name}`,
      `make it on the host: virsh pool-define-as ${name} dir --target /var/lib/libvirt/images && ` +
        `virsh pool-autostart ${name} && virsh pool-start ${name}`,
    );
  }
  const [info, { xml }] = await Promise.all([
    daemon.call('storagePoolGetInfo', { pool: handle }),
    daemon.call('storagePoolGetXmlDesc', { pool: handle, flags: 0 }),
  ]);
  const { type, targetPath } = parsePoolXml(xml);
  const facts: PoolFacts = {
    name,
    type,
    targetPath,
    state: info.state,
    capacityBytes: Number(info.capacity),
    availableBytes: Number(info.available),
  };
  if (isUsable(facts)) onUsable({ handle, type });
  return judgePool(facts);
}

/** Pure. */
export function judgePool(pool: PoolFacts): Finding {
  const { name, type, targetPath } = pool;
  if (!isMadeOfFiles(pool)) {
    return fault(
      `pool ${name} is of type ${type === '' ? 'unknown' : type}`,
      `configure a pool of type ${FILE_POOL_TYPES.join(', ')} for this host`,
    );
  }
  const where = `pool ${name} (${type}, ${targetPath})`;
  if (!isUsable(pool)) {
    return fault(
      `${where} is ${STATES[pool.state] ?? `in state ${pool.state}`}`,
      `start it on the host, now and at every boot: virsh pool-start ${name}; virsh pool-autostart ${name}`,
    );
  }
  const room = `${gib(pool.availableBytes)} of ${gib(pool.capacityBytes)} GiB free`;
  return pool.availableBytes >= LEAST_FREE_BYTES
    ? fine(`${where}: ${room}`)
    : fault(`${where} is full: ${room}`, `make room below ${targetPath}, or put it on a larger file system`);
}

const isMadeOfFiles = ({ type, targetPath }: PoolFacts): boolean =>
  FILE_POOL_TYPES.includes(type) && targetPath !== null;

const isUsable = (pool: PoolFacts): boolean =>
  isMadeOfFiles(pool) &&
  (pool.state === STORAGE_POOL_STATE.running || pool.state === STORAGE_POOL_STATE.degraded);

const STATES: Readonly<Record<number, string>> = {
  [STORAGE_POOL_STATE.inactive]: 'not active',
  [STORAGE_POOL_STATE.building]: 'still being built',
  [STORAGE_POOL_STATE.inaccessible]: 'not accessible',
};

const gib = (bytes: number): string => (bytes / BYTES_PER_GIB).toFixed(1);
