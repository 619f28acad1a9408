/**
 * Starting a domain, with every reason a real host has to refuse: in libvirt's order (configuration, disks and what they
 * stand on, bridges, then QEMU's own complaints). After a refused start the domain is shut off, reason `failed`.
 */
import { DOMAIN_SHUTOFF_REASON } from '../../../../lib/libvirt/constants.ts';
import {
  configUnsupported,
  ERRNO,
  ERROR_DOMAIN,
  internalError,
  operationInvalid,
  systemError,
} from '../daemon/daemon-error.ts';
import type { DomainDefinition } from './domain-definition.ts';
import { type Disk, disksOf, interfacesOf } from './domain-devices.ts';
import type { Domain, DomainRun } from './domain-store.ts';
import { currentDefinition } from './domain-store.ts';
import { bootGuest } from './guest.ts';
import type { HostFiles } from './host-files.ts';
import type { HostState } from './host-state.ts';
import { QCOW2_HEADER_BYTES, readQcow2Header } from './qcow2-image.ts';

/** @throws DaemonError operationInvalid when it runs already, else as QEMU and libvirt refuse. */
export function startDomain(
  host: HostState,
  domain: Domain,
  options: { readonly paused: boolean },
): DomainRun {
  if (domain.run) {
    throw operationInvalid(ERROR_DOMAIN.qemu, 'domain is already running');
  }
  const definition = currentDefinition(domain);
  try {
    domain.run = launch(host, definition, options);
    return domain.run;
  } catch (error) {
    domain.shutoffReason = DOMAIN_SHUTOFF_REASON.failed;
    throw error;
  }
}

/** What a disk's file stands on, nearest first; ends where a file is missing or no overlay. */
export function backingChain(path: string, files: HostFiles): { path: string; format: string }[] {
  const chain: { path: string; format: string }[] = [];
  for (let at: string | undefined = path; at !== undefined && chain.length < 200; ) {
    const file = files.get(at);
    const backing = file && readQcow2Header(file.bytes.read(0, QCOW2_HEADER_BYTES))?.backing;
    if (backing) {
      chain.push({ path: backing.path, format: backing.format ?? 'raw' });
    }
    at = backing?.format === 'raw' ? undefined : backing?.path;
  }
  return chain;
}

function launch(host: HostState, definition: DomainDefinition, options: { paused: boolean }): DomainRun {
  if (definition.cpuMode === 'host-passthrough' && definition.virtType === 'qemu') {
    throw configUnsupported(
      ERROR_DOMAIN.qemu,
      "CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported by hypervisor",
    );
  }
  const disks = disksOf(definition.rest).filter(hasPath);
  for (const disk of disks) {
    checkFiles(disk, host.files);
  }
  checkBridges(definition, host);
  for (const disk of disks) {
    checkContent(disk, host);
  }
  if (definition.memoryKiB * 1024n > host.freeMemoryBytes) {
    throw internalError(
      ERROR_DOMAIN.qemu,
      "qemu unexpectedly closed the monitor: qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory",
    );
  }
  const guest = bootGuest(
    disks.map(({ target, path }) => ({
      target,
      path,
      chain: backingChain(path, host.files).map((backing) => backing.path),
    })),
    host.files,
    { now: host.now(), bootMs: host.bootMs, cloudInitMs: host.cloudInitMs },
  );
  host.boots.push({ name: definition.name, uuid: definition.uuid, ...guest.boot });
  return {
    id: host.domains.nextId(),
    definition,
    guest,
    taps: interfacesOf(definition.rest).map(() => host.nextTap()),
    isPaused: options.paused,
    offAt: undefined,
    isAgentBusy: false,
    ended: new AbortController(),
  };
}

type FileDisk = Disk & { readonly path: string };
const hasPath = (disk: Disk): disk is FileDisk => disk.path !== undefined;

function checkFiles(disk: FileDisk, files: HostFiles): void {
  if (!files.get(disk.path)) {
    throw missing(`Cannot access storage file '${disk.path}': No such file or directory`);
  }
  if (disk.format !== 'qcow2') {
    return;
  }
  let above = disk.path;
  for (const { path } of backingChain(disk.path, files)) {
    if (!files.get(path)) {
      throw missing(
        `Cannot access backing file '${path}' of storage file '${above}': No such file or directory`,
      );
    }
    above = path;
  }
}

const missing = (message: string): Error => systemError(ERROR_DOMAIN.storage, ERRNO.noEntry, message);

function checkBridges(definition: DomainDefinition, host: HostState): void {
  for (const { bridge } of interfacesOf(definition.rest)) {
    if (bridge !== undefined && !host.bridges.has(bridge)) {
      throw systemError(
        ERROR_DOMAIN.none,
        ERRNO.noDevice,
        `Cannot get interface MTU on '${bridge}': No such device`,
      );
    }
  }
}

/** QEMU opens every image of the chain and locks what it may write. */
function checkContent(disk: FileDisk, host: HostState): void {
  const chain = [
    { path: disk.path, format: disk.format },
    ...(disk.format === 'qcow2' ? backingChain(disk.path, host.files) : []),
  ];
  for (const { path, format } of chain) {
    const header = host.files.get(path)?.bytes.read(0, QCOW2_HEADER_BYTES);
    if (format === 'qcow2' && !(header && readQcow2Header(header))) {
      throw qemuFailed('Image is not in qcow2 format');
    }
  }
  const isLocked = host.domains.all.some((other) =>
    disksOf(other.run?.definition.rest ?? []).some(
      (used) => used.path === disk.path && !(used.isReadOnly && disk.isReadOnly),
    ),
  );
  if (isLocked) {
    throw qemuFailed(`Failed to get "write" lock\nIs another process using the image [${disk.path}]?`);
  }
}

const qemuFailed = (detail: string): Error =>
  internalError(
    ERROR_DOMAIN.qemu,
    `process exited while connecting to monitor: qemu-system-x86_64: -blockdev: ${detail}`,
  );
