/**
 * The volumes of one image in a pool, and the few calls that are made on them. An import is a numbered generation: its
 * data, the claim of whoever fills it, and the verdict on it. The protocol and why it is safe: docs/decisions/0001.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  type CallOptions,
  ERROR_CODE,
  type LibvirtConnection,
  LibvirtError,
  type StoragePoolHandle,
  type StorageVolHandle,
  whileBuilding,
} from '../libvirt/index.ts';
import { buildXml, parseXml, textAt } from '../libvirt/xml-tree.ts';

export const VOLUME_ROLES = ['data', 'claim', 'verdict'] as const;
export type VolumeRole = (typeof VOLUME_ROLES)[number];

/** One image's place in one pool of one host. */
export interface ImagePlace {
  readonly connection: LibvirtConnection;
  readonly pool: StoragePoolHandle;
  /** baseVolumeName() of the image. */
  readonly base: string;
  /** For every call; without it the connection's own timeout alone. */
  readonly options?: CallOptions;
}

const REFRESH_ATTEMPTS = 3;
const REFRESH_PAUSE_MS = 200;

const EEXIST = 17;
const ENOENT = 2;

export function generationVolumeName(base: string, role: VolumeRole, generation: number): string {
  return role === 'data' ? `${base}.${generation}` : `${base}.${role}.${generation}`;
}

/** Null for a volume that is not one of this image. */
export function parseGenerationVolume(
  base: string,
  name: string,
): { readonly role: VolumeRole; readonly generation: number } | null {
  if (!name.startsWith(`${base}.`)) return null;
  const match = /^(?:(claim|verdict)\.)?([1-9]\d{0,14})$/.exec(name.slice(base.length + 1));
  if (match === null) return null;
  const role = match[1] === 'claim' || match[1] === 'verdict' ? match[1] : 'data';
  return { role, generation: Number(match[2]) };
}

/**
 * Sparse and raw whatever the image's format: libvirt would lay out an empty qcow2 file for a qcow2 volume, whose tail
 * stays behind a shorter image. libvirt recognises what was uploaded by itself.
 */
export function buildSparseVolumeXml(name: string, sizeBytes: number): string {
  return buildXml({
    tag: 'volume',
    children: [
      { tag: 'name', text: name },
      { tag: 'capacity', attributes: { unit: 'bytes' }, text: sizeBytes },
      { tag: 'allocation', attributes: { unit: 'bytes' }, text: 0 },
      { tag: 'target', children: [{ tag: 'format', attributes: { type: 'raw' } }] },
    ],
  });
}

/**
 * Creates a volume of that size unless one of that name exists (storageVolCreateXml), atomically also between hosts
 * that share the pool: the daemon opens the file with O_EXCL. Null: it exists.
 */
export async function createExclusively(
  place: ImagePlace,
  name: string,
  sizeBytes: number,
): Promise<StorageVolHandle | null> {
  try {
    const args = { pool: place.pool, xml: buildSparseVolumeXml(name, sizeBytes), flags: 0 };
    const { vol } = await place.connection.call('storageVolCreateXml', args, place.options);
    return vol;
  } catch (error) {
    if (isLibvirtError(error, ERROR_CODE.storageVolExist)) return null;
    // A file that the daemon does not know: found before it was opened (55, which says other things too), or then.
    const perhaps = isLibvirtError(error, ERROR_CODE.operationInvalid) || isSystemError(error, EEXIST);
    if (perhaps && (await findVolume(place, name)) !== null) return null;
    throw error;
  }
}

/** Null: there is none, after looking at the directory itself if the daemon does not know it. */
export async function findVolume(place: ImagePlace, name: string): Promise<StorageVolHandle | null> {
  const known = await lookUp(place, name);
  if (known !== null) return known;
  await refreshPool(place);
  return lookUp(place, name);
}

/** Capacity in bytes as the file says now; null when the volume or its file is gone. */
export async function readCapacity(place: ImagePlace, vol: StorageVolHandle): Promise<number | null> {
  try {
    const { capacity } = await place.connection.call('storageVolGetInfo', { vol }, place.options);
    return Number(capacity);
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

/**
 * How much of a volume is written, and the length of its file, in bytes; `sizeBytes` is null when the daemon does not
 * say. Capacity would not do: it becomes the image's virtual size once libvirt has looked into a half-written qcow2.
 */
export async function readFill(
  place: ImagePlace,
  vol: StorageVolHandle,
): Promise<{ readonly writtenBytes: number; readonly sizeBytes: number | null } | null> {
  try {
    const { xml } = await place.connection.call('storageVolGetXmlDesc', { vol, flags: 0 }, place.options);
    return parseFill(xml);
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

/** One that is gone already is deleted; one that the daemon is still making, by a call that nobody waits for, in a while. */
export async function deleteVolume(place: ImagePlace, name: string): Promise<void> {
  const { connection, options } = place;
  const vol = await lookUp(place, name);
  if (vol === null) return;
  try {
    await whileBuilding(
      () => connection.call('storageVolDelete', { vol, flags: 0 }, options),
      options?.signal,
    );
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/**
 * Has the daemon look at the pool's directory, in which another host of a shared pool may have written. It refuses
 * (code 1) while a volume is being made in the pool; then what it remembers has to do, which costs no safety, since
 * files are created exclusively, but perhaps a futile attempt.
 */
export async function refreshPool({ connection, pool, options }: ImagePlace): Promise<void> {
  for (let attempt = 1; attempt <= REFRESH_ATTEMPTS; attempt += 1) {
    try {
      await connection.call('storagePoolRefresh', { pool, flags: 0 }, options);
      return;
    } catch (error) {
      if (!isLibvirtError(error, ERROR_CODE.internalError)) throw error;
    }
    await delay(REFRESH_PAUSE_MS);
  }
}

async function lookUp(
  { connection, pool, options }: ImagePlace,
  name: string,
): Promise<StorageVolHandle | null> {
  try {
    return (await connection.call('storageVolLookupByName', { pool, name }, options)).vol;
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

function parseFill(xml: string): { readonly writtenBytes: number; readonly sizeBytes: number | null } {
  const volume = parseXml(xml);
  return {
    writtenBytes: bytesOf(textAt(volume, 'allocation')) ?? 0,
    sizeBytes: bytesOf(textAt(volume, 'physical')),
  };
}

function bytesOf(text: string | null): number | null {
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
}

function isGone(error: unknown): boolean {
  return isLibvirtError(error, ERROR_CODE.noStorageVol) || isSystemError(error, ENOENT);
}

function isLibvirtError(error: unknown, code: number): error is LibvirtError {
  return error instanceof LibvirtError && error.code === code;
}

/** libvirt passes errno on in `int1` of a system error. */
function isSystemError(error: unknown, errno: number): boolean {
  return isLibvirtError(error, ERROR_CODE.systemError) && error.int1 === errno;
}
