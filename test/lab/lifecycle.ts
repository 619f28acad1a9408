/**
 * Brings the lab up, takes it down, says what is up. `up` always starts from nothing, and a lab is either up as
 * a whole or not there.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findVirtType } from './acceleration.ts';
import { endProcess, startInBackground } from './background.ts';
import { writeConfigFile } from './config-file.ts';
import { type GuestImage, provideGuestImage } from './guest-image.ts';
import { createHost, enterHost } from './host.ts';
import { findProcess, readLedger, removeLedger } from './ledger.ts';
import { configureLibvirtd, createPool, startLibvirtd, startVirtlogd } from './libvirtd.ts';
import { connectHost, createHostNetwork, linkExists, removeHostNetwork, startDhcp } from './network.ts';
import { installPackages } from './packages.ts';
import { startSystemBus } from './polkit.ts';
import { configureSshd, createUserKey, startSshd, writeKnownHosts } from './sshd.ts';
import { HOST_NETWORK, HOSTS, IMAGE_NAME, type LabHost, RUN_DIRECTORY, SSH_USER } from './topology.ts';

const IMAGE_SERVER = 'image-server';

/**
 * Installs, builds and starts everything. A lab that is up, or was left half up, is taken down first, and so is this one when a step
 * fails or `signal` is aborted: then nothing is left but packages and a finished guest image.
 */
export async function bringUp(signal: AbortSignal, log: (line: string) => void): Promise<void> {
  await takeDown();
  try {
    await installPackages(signal, log);
    const image = await provideGuestImage(signal, log);
    const virtType = await findVirtType();
    log(virtType === 'kvm' ? 'guests run on KVM' : 'guests are emulated: KVM runs none here');
    signal.throwIfAborted();

    await mkdir(RUN_DIRECTORY, { recursive: true });
    await createHostNetwork();
    await createUserKey();
    const devices = virtType === 'kvm' ? ['kvm'] : [];
    const starts = Object.values(HOSTS).map((host) => startHost(host, devices, signal));
    await settleAll(starts);
    await writeKnownHosts();
    const url = await serveImage(image);
    await writeConfigFile(virtType, { url, sha256: image.sha256 });
    signal.throwIfAborted();
  } catch (error) {
    await takeDown();
    throw error;
  }
}

/** Removes whatever is up, of this clone or another one, wholly or half; nothing is no error. */
export async function takeDown(): Promise<void> {
  const recorded = await readLedger();
  for (const process of recorded) await endProcess(process);
  await removeHostNetwork();
  for (const directory of new Set([RUN_DIRECTORY, ...recorded.map((process) => process.runDirectory)])) {
    await rm(directory, { recursive: true, force: true });
  }
  await removeLedger();
}

/** Each part of the lab and whether it runs. */
export async function readStatus(): Promise<{ part: string; up: boolean }[]> {
  const parts = [...Object.keys(HOSTS), IMAGE_SERVER].map(async (role) => ({
    part: role,
    up: (await findProcess(role)) !== null,
  }));
  return [
    { part: HOST_NETWORK.bridge, up: await linkExists(HOST_NETWORK.bridge) },
    ...(await Promise.all(parts)),
  ];
}

async function startHost(host: LabHost, devices: readonly string[], signal: AbortSignal): Promise<void> {
  await createHost(host, devices);
  await connectHost(host);
  await startDhcp(host);
  if (host.authentication === 'polkit') await startSystemBus(host);
  await configureLibvirtd(host);
  await startVirtlogd(host);
  signal.throwIfAborted();
  await startLibvirtd(host);
  await createPool(host);
  await checkAccount(host);
  await configureSshd(host);
  await startSshd(host);
}

/** The account that the functions use may manage libvirt, by the host's own way of deciding it. */
async function checkAccount(host: LabHost): Promise<void> {
  const asUser = ['--reuid', SSH_USER, '--regid', SSH_USER, '--init-groups', '--reset-env'];
  await enterHost(host, 'setpriv', [...asUser, 'virsh', '--connect', 'qemu:///system', 'version']);
}

/** Waits for all of them, also when one fails: what still is being started could not be taken down. */
async function settleAll(starts: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(starts)) {
    if (result.status === 'rejected') throw result.reason;
  }
}

async function serveImage(image: GuestImage): Promise<string> {
  const order = { file: image.file, urlPath: `/${IMAGE_NAME}.qcow2`, etag: `"${image.sha256}"` };
  const script = join(import.meta.dirname, `${IMAGE_SERVER}.ts`);
  return await startInBackground(IMAGE_SERVER, process.execPath, [script], JSON.stringify(order));
}
