/**
 * Steps ② to ⑥ of a create, from wherever it stands: seed, base image, overlay, start, ready. Each step looks before
 * it acts and leaves its mark in the domain's metadata, so that any number of workers may run this on one VM, one
 * after the other or at once, and each may die anywhere.
 */
import { importImage } from '../image/image-import.ts';
import { baseVolumeName, type ImageSource } from '../image/image-source.ts';
import { imageState } from '../image/image-state.ts';
import { ERROR_CODE, LibvirtError } from '../libvirt/errors.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { eraseVm } from './erase.ts';
import { hasCode } from './error-classification.ts';
import { refineRefusal } from './host-resources.ts';
import type { HostSession } from './host-session.ts';
import { isActive } from './instance-view.ts';
import type { Metadata } from './metadata.ts';
import { buildStarted } from './metadata-elements.ts';
import type { Pool } from './pool.ts';
import type { ProviderContext } from './provider-context.ts';
import { isBeingRemade, whileRemaking } from './remake-claim.ts';
import { hasScrubBegun, scrubSeed } from './scrub-seed.ts';
import { seedDigest } from './specification.ts';
import { together } from './together.ts';
import { advancePhase, type OwnVm, readVm, writeMetadata } from './vm.ts';
import { volumeName } from './volume-names.ts';
import { GIB } from './volume-xml.ts';
import { ensureOverlay, remakeOverlay, storeSeed } from './volumes.ts';

/**
 * `ready`: started; `no-seed`: only a repeat of the request can go on; `no-image`: somebody else imports it, or this
 * invocation has no time to; `gone`: deleted, or being deleted, in the meantime.
 */
export type CreateProgress = 'ready' | 'no-seed' | 'no-image' | 'gone';

/**
 * @param vm as it was just defined or read; what has become of it since is looked at before and after the start.
 * @param seed the seed's bytes where the request is at hand, else null.
 * @throws what the lower layers throw; the VM stays as it is and the same call goes on from there.
 */
export async function finishCreate(
  context: ProviderContext,
  session: HostSession,
  pool: Pool,
  vm: OwnVm,
  seed: Uint8Array | null,
): Promise<CreateProgress> {
  const { metadata } = vm.description;
  if (metadata.deleting !== null) return 'gone';
  if (metadata.phase?.phase === 'ready') return 'ready';
  // Once user-data is off the seed it never goes back, also if somebody has removed the phase that says `seeded`.
  const isSeeded = metadata.phase?.seeded === true || hasScrubBegun(metadata);
  if (!isSeeded && seed === null) return 'no-seed';
  try {
    const [, image] = await together([
      isSeeded || seed === null ? undefined : seedStep(context, session, pool, vm, seed),
      lookForImage(context, session, pool, vm),
    ]);
    const base = image ?? (await importStep(context, session, pool, vm));
    if (base === null) return 'no-image';
    await overlayStep(context, session, pool, vm, base);
    return await startStep(context, session, vm);
  } catch (error) {
    // By UUID, 42 has one meaning: somebody deleted it. What this worker made since then must go too.
    if (!hasCode(error, ERROR_CODE.noDomain)) throw error;
    await eraseVm(session, vm.identity);
    return 'gone';
  }
}

async function seedStep(
  context: ProviderContext,
  session: HostSession,
  pool: Pool,
  vm: OwnVm,
  seed: Uint8Array,
): Promise<void> {
  const { identity } = vm;
  if (seedDigest(identity.uuid, seed) !== identity.seedDigest) {
    throw new ProviderError(
      'conflict',
      'the seed would differ from the one this VM was reserved with: the vendor-data in the configuration has changed since',
    );
  }
  await storeSeed(session, pool.handle, identity, seed);
  await advancePhase(session, vm.handle, { phase: 'seeded', seeded: true });
  // A creator so slow that another one has started the VM, and a worker scrubbed its seed, has put user-data back.
  if (identity.scrub && hasScrubBegun((await readVm(session, vm.handle)).description.metadata)) {
    await scrubSeed(context, session, identity.uuid);
  }
}

/** Path and size of the base image in the pool; null while it is not there. */
async function lookForImage(context: ProviderContext, session: HostSession, pool: Pool, vm: OwnVm) {
  const source = sourceOf(context, vm);
  const found = await imageState(session.connection, pool.handle, source, context.options);
  return found.state === 'present' ? { ...found, format: source.format } : null;
}

/** Brings the image to the host; null when somebody else is about it, or this invocation may not. */
async function importStep(context: ProviderContext, session: HostSession, pool: Pool, vm: OwnVm) {
  const { options } = context;
  const source = sourceOf(context, vm);
  await advancePhase(session, vm.handle, { phase: 'importing-image' });
  if (!options.canImport) return null;
  const outcome = await importImage(session.connection, pool.handle, source, {
    fetch: options.fetch,
    now: options.now,
    deadlineAt: options.deadlineAt,
    reconnect: async () => (await context.sessions.get(session.host)).connection,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  context.report('image-import', { host: session.host.name, image: source.name, outcome });
  return outcome === 'busy' ? null : lookForImage(context, session, pool, vm);
}

/** The image as the configuration names it today, which must still be the one the VM was reserved with. */
function sourceOf(context: ProviderContext, { identity }: OwnVm): ImageSource {
  const image = Object.hasOwn(context.options.images, identity.image)
    ? context.options.images[identity.image]
    : undefined;
  if (image === undefined || baseVolumeName({ ...image, name: identity.image }) !== identity.baseVolume) {
    throw new ProviderError(
      'permanent',
      `image ${identity.image} is no longer the one in the configuration that this VM was asked for`,
    );
  }
  return { ...image, name: identity.image };
}

async function overlayStep(
  context: ProviderContext,
  session: HostSession,
  pool: Pool,
  vm: OwnVm,
  base: { readonly path: string; readonly capacityBytes: number; readonly format: 'qcow2' | 'raw' },
): Promise<void> {
  const capacityBytes = vm.identity.diskSizeGb * GIB;
  if (capacityBytes < base.capacityBytes) {
    const needed = Math.ceil(base.capacityBytes / GIB);
    throw new ProviderError(
      'permanent',
      `diskSizeGb ${vm.identity.diskSizeGb} is below the virtual size of image ${vm.identity.image}: ${needed} GiB`,
      { errors: [{ pointer: '/diskSizeGb', detail: `at least ${needed}` }] },
    );
  }
  const overlay = {
    name: volumeName(vm.identity, 'disk'),
    capacityBytes,
    backingPath: base.path,
    backingFormat: base.format,
  };
  if ((await ensureOverlay(session, pool.handle, overlay)) === 'ready') return;
  await whileRemaking(context, session, vm, (mayHoldData) =>
    remakeOverlay(session, pool.handle, overlay, mayHoldData),
  );
}

/**
 * Both sides write, then look: delete marks and then destroys, this marks and then starts, and each looks for the
 * other's mark afterwards. In no other order is it sure that one of them sees the other. The same holds for whoever makes
 * the disk again (remake-claim.ts).
 */
async function startStep(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<CreateProgress> {
  const { handle, identity } = vm;
  const isFirst = vm.description.metadata.startedAt === null;
  await together([
    advancePhase(session, handle, { phase: 'starting', startRefused: false }),
    isFirst ? writeMetadata(session, handle, 'started', buildStarted(context.options.now())) : undefined,
    session.call('domainSetAutostart', { dom: handle, autostart: identity.autostart ? 1 : 0 }),
  ]);
  const before = await readMetadata(session, vm);
  if (before.deleting !== null) return 'gone';
  if (isBeingRemade(before, context.options.now())) {
    throw new ProviderError('transient', `another worker is making the disk of ${identity.name} again`);
  }
  try {
    await startDomain(context, session, vm);
  } catch (error) {
    // An answer, as against a lost connection, says that the guest never ran: such a create may be collected one day.
    if (isRefusal(error)) {
      await advancePhase(session, handle, { phase: 'starting', startRefused: true });
    }
    throw error;
  }
  await advancePhase(session, handle, { phase: 'ready', startRefused: false });
  if ((await readMetadata(session, vm)).deleting !== null) {
    await eraseVm(session, identity);
    return 'gone';
  }
  return 'ready';
}

/** Starts a domain that is not active. Repeatable: a running one is left as it is. */
export async function startDomain(context: ProviderContext, session: HostSession, vm: OwnVm): Promise<void> {
  try {
    await session.call('domainCreate', { dom: vm.handle });
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noDomain)) throw error;
    // 55 is also the answer to a start beside another one that has not succeeded yet.
    const { state } = await session.call('domainGetState', { dom: vm.handle, flags: 0 });
    if (isActive(state)) return;
    const memoryMiB = context.options.machineTypes[vm.identity.machineType]?.memoryMiB ?? 0;
    throw await refineRefusal(session, error, { memoryMiB });
  }
}

/** libvirt answered no; the session goes on. */
function isRefusal(error: unknown): boolean {
  const answer = error instanceof ProviderError ? error.cause : error;
  return answer instanceof LibvirtError && answer.code !== ERROR_CODE.noDomain;
}

/** @throws LibvirtError noDomain when it is gone already. */
async function readMetadata(session: HostSession, { handle }: OwnVm): Promise<Metadata> {
  return (await readVm(session, handle)).description.metadata;
}
