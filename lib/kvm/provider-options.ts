/** What the provider is made of: resolved values and capabilities, all passed in, so that it reads nothing by itself. */
import type { Duplex } from 'node:stream';
import type { ImageSource } from '../image/image-source.ts';
import type { Enqueue } from '../provider/work.ts';

export interface KvmHost {
  readonly name: string;
  /** Storage pool of type dir, fs or netfs. */
  readonly pool: string;
  readonly bridge: string;
  /** `qemu` emulates, for hosts without hardware support. */
  readonly virtType: 'kvm' | 'qemu';
}

export interface MachineType {
  readonly vcpus: number;
  readonly memoryMiB: number;
  /** For creates that do not say: whether user-data is taken off the seed once cloud-init is done. */
  readonly seed?: { readonly scrub: boolean };
}

/** A byte stream to a host's libvirtd and the way to end all that carries it. */
export interface HostStream {
  readonly stream: Duplex;
  close(): Promise<void>;
}

export type Dial = (
  host: string,
  options: { readonly signal?: AbortSignal; readonly timeoutMs: number },
) => Promise<HostStream>;

/** Something worth telling an operator; never contains user-data. */
export type ReportEvent = (
  event: string,
  fields: Readonly<Record<string, string | number | boolean>>,
) => void;

export interface KvmProviderOptions {
  readonly fleet: string;
  readonly hosts: readonly KvmHost[];
  readonly machineTypes: Readonly<Record<string, MachineType>>;
  /** By the name requests use. */
  readonly images: Readonly<Record<string, Omit<ImageSource, 'name'>>>;
  /** GiB, for requests that name none. */
  readonly diskSizeGb: number;
  readonly vendorData: string;
  /** What guests are asked beyond their addresses; nothing unless it says so. */
  readonly readiness?: { readonly cloudInit: boolean };
  readonly deadlines: { readonly createSeconds: number; readonly deleteSeconds: number };
  readonly dial: Dial;
  readonly enqueue: Enqueue;
  readonly fetch: typeof globalThis.fetch;
  readonly now: () => number;
  readonly randomUuid: () => string;
  /** When this invocation ends, in milliseconds since the epoch: no call is waited for longer. */
  readonly deadlineAt: number;
  readonly signal?: AbortSignal;
  /** Whether this invocation has the time to import an image (the worker), or leaves it to the queue (the API). */
  readonly canImport: boolean;
  readonly report?: ReportEvent;
}
