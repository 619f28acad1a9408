/**
 * The provider contract: what every request function, the worker and the collector ask of a hypervisor fleet.
 * One contract suite holds every implementation to it (test/contract).
 */
import type { HostView, Instance } from './instance.ts';
import type { WorkMessage } from './work.ts';

export interface CreateRequest {
  /** DNS label (RFC 1123), at most 63 characters, lower case. */
  readonly name: string;
  /** Identifies the request across repeats; 1–128 printable ASCII characters. */
  readonly uid?: string;
  readonly placement: { readonly host?: string; readonly machineType: string; readonly image: string };
  /** User-data as bytes, already decoded from whatever the transport used. */
  readonly cloudInit?: Uint8Array;
  /** cloud-init network-config v1 or v2; `${mac}` in a string stands for the VM's MAC. */
  readonly networkConfig?: Readonly<Record<string, unknown>>;
  readonly sshAuthorizedKeys?: readonly string[];
  /** GiB. */
  readonly diskSizeGb?: number;
  readonly ttlSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly protected?: boolean;
  readonly autostart?: boolean;
  /** `scrub`: whether user-data is taken off the seed once cloud-init is done; the machine type says so else. */
  readonly seed?: { readonly scrub: boolean };
}

/** `created`: it was started now (201); `accepted`: work goes on (202); `existing`: it was there and matches (200). */
export interface CreateResult {
  readonly outcome: 'created' | 'accepted' | 'existing';
  readonly instance: Instance;
}

export interface DeleteOptions {
  /** Refuse (conflict) when the VM of that name carries another uid. */
  readonly uid?: string;
  /** Ask the guest to shut down and wait this long before it is destroyed; 0 destroys at once. */
  readonly graceSeconds?: number;
}

export interface Listing {
  readonly instances: readonly Instance[];
  readonly hosts: readonly HostView[];
}

export interface ListOptions {
  /** Only this host. An unknown one is `not-found`. */
  readonly host?: string;
}

/** A provider serves one invocation: it holds at most one session per host and `close` ends them all. */
export interface Provider {
  /** Safe to repeat: the same uid and specification joins what is under way. */
  create(request: CreateRequest): Promise<CreateResult>;
  /** @throws ProviderError `not-found` also for a name that a foreign domain holds. */
  get(id: string): Promise<Instance>;
  /** Safe to repeat; a VM that never existed counts as gone. */
  delete(id: string, options?: DeleteOptions): Promise<{ readonly gone: boolean }>;
  listByTag(options?: ListOptions): Promise<Listing>;
  /**
   * Goes on with what a message names. Safe to repeat, and safe beside another worker with the same message. What can
   * never succeed is recorded with the VM; an error that is thrown is not, and the message must come again.
   */
  continueWork(message: WorkMessage): Promise<void>;
  close(): Promise<void>;
}
