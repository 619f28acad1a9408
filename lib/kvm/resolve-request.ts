/**
 * A request against the configuration, before any host is touched: what it names must exist, its user-data must be
 * something cloud-init accepts. A request that is refused here has reached nobody.
 */
import { baseVolumeName, type ImageSource } from '../image/image-source.ts';
import type { CreateRequest } from '../provider/provider.ts';
import { type Fault, ProviderError } from '../provider/provider-error.ts';
import { AuthorizedKeyError, validateAuthorizedKey } from '../seed/authorized-key.ts';
import { checkNothingRunsAtEachBoot } from '../seed/each-boot.ts';
import { NetworkConfigError, validateNetworkConfig } from '../seed/network-config.ts';
import { type PreparedUserData, prepareUserData } from '../seed/prepare-user-data.ts';
import { MIN_SCRUBBED_BYTES } from '../seed/scrubbed-user-data.ts';
import { UserDataError } from '../seed/user-data-error.ts';
import type { KvmHost, KvmProviderOptions, MachineType } from './provider-options.ts';

export interface ResolvedRequest {
  readonly request: CreateRequest;
  readonly host: KvmHost;
  readonly machineType: MachineType;
  readonly image: ImageSource;
  readonly baseVolume: string;
  readonly diskSizeGb: number;
  readonly prepared: PreparedUserData;
  /** Whether user-data is to be taken off the seed once cloud-init is done. */
  readonly scrub: boolean;
  /**
   * What keeps a new VM from being made with this scrub, where the machine type asks for it and not the request. A repeat for a VM
   * that exists is not refused by it: the machine type's word was another when that was made.
   */
  readonly scrubFaults: readonly Fault[];
}

/** Pure. @throws ProviderError `invalid-request` with every fault and its pointer; `permanent` for the operator's own vendor-data. */
export function resolveRequest(options: KvmProviderOptions, request: CreateRequest): ResolvedRequest {
  const faults: Fault[] = [];
  const { placement } = request;
  const host = chooseHost(options.hosts, placement.host);
  if (typeof host === 'string') faults.push({ pointer: '/placement/host', detail: host });
  const machineType = lookUp(options.machineTypes, placement.machineType);
  if (machineType === undefined) {
    faults.push({
      pointer: '/placement/machineType',
      detail: `no machine type ${quote(placement.machineType)}`,
    });
  }
  const image = lookUp(options.images, placement.image);
  if (image === undefined) {
    faults.push({ pointer: '/placement/image', detail: `no image ${quote(placement.image)}` });
  }
  const prepared = prepare(request, options.vendorData, faults);
  const scrub = request.seed?.scrub ?? machineType?.seed?.scrub ?? false;
  const scrubFaults = scrub && prepared !== null ? checkScrub(options, request, prepared) : [];
  if (request.seed?.scrub === true) faults.push(...scrubFaults);
  if (faults.length > 0 || typeof host === 'string' || !machineType || !image || !prepared) {
    throw refusalOf(faults);
  }
  const source = { ...image, name: placement.image };
  return {
    request,
    host,
    machineType,
    image: source,
    baseVolume: baseVolumeName(source),
    diskSizeGb: request.diskSizeGb ?? options.diskSizeGb,
    prepared,
    scrub,
    scrubFaults,
  };
}

/** Before a VM is reserved. @throws ProviderError `invalid-request`. */
export function requireScrubbable({ scrubFaults }: ResolvedRequest): void {
  if (scrubFaults.length > 0) throw refusalOf(scrubFaults);
}

/** With the pointers: of a direct invocation's error the caller sees nothing but the message. */
function refusalOf(faults: readonly Fault[]): ProviderError {
  const message = faults.map(({ pointer, detail }) => `${pointer} ${detail}`).join('; ');
  return new ProviderError('invalid-request', message, { errors: faults });
}

/** A seed can be scrubbed only if it is known when cloud-init is done, and if the guest needs no user-data after that. */
function checkScrub(
  { readiness }: KvmProviderOptions,
  request: CreateRequest,
  prepared: PreparedUserData,
): readonly Fault[] {
  const faults: Fault[] = [];
  if (readiness?.cloudInit !== true) {
    const detail = 'scrub needs readiness.cloudInit in the configuration, which says when cloud-init is done';
    faults.push({ pointer: '/seed/scrub', detail });
  }
  collect(faults, '/cloudInit', () => checkNothingRunsAtEachBoot(request.cloudInit ?? new Uint8Array()));
  if (prepared.userData.length < MIN_SCRUBBED_BYTES) {
    const detail = `with seed.scrub user-data has at least ${MIN_SCRUBBED_BYTES} bytes`;
    faults.push({ pointer: '/cloudInit', detail });
  }
  return faults;
}

/** An empty host is allowed only when exactly one is configured. */
function chooseHost(hosts: readonly KvmHost[], name: string | undefined): KvmHost | string {
  const [only] = hosts;
  if (name === undefined) {
    if (only !== undefined && hosts.length === 1) return only;
    return `a host is needed: one of ${hosts.map((host) => host.name).join(', ')}`;
  }
  return hosts.find((host) => host.name === name) ?? `no host ${quote(name)}`;
}

function prepare(request: CreateRequest, vendorData: string, faults: Fault[]): PreparedUserData | null {
  const { networkConfig, sshAuthorizedKeys = [] } = request;
  for (const [index, key] of sshAuthorizedKeys.entries()) {
    collect(faults, `/sshAuthorizedKeys/${index}`, () => validateAuthorizedKey(key));
  }
  if (networkConfig !== undefined)
    collect(faults, '/networkConfig', () => validateNetworkConfig(networkConfig));
  return collect(faults, '/cloudInit', () =>
    prepareUserData(request.cloudInit ?? new Uint8Array(), vendorData),
  );
}

function collect<T>(faults: Fault[], pointer: string, check: () => T): T | null {
  try {
    return check();
  } catch (error) {
    if (error instanceof UserDataError && error.document === 'vendor-data') {
      throw new ProviderError('permanent', `vendorData in the configuration: ${error.detail}`, {
        cause: error,
      });
    }
    if (
      error instanceof UserDataError ||
      error instanceof NetworkConfigError ||
      error instanceof AuthorizedKeyError
    ) {
      faults.push({ pointer, detail: error.message });
      return null;
    }
    throw error;
  }
}

/** Own properties only: `constructor` is no machine type. */
function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function quote(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}
