/**
 * What the provider suites stand on: hosts that can be dialled, an image over HTTP, a queue that holds what was sent,
 * a clock that can be moved. All that a test arranges or asserts on a host goes through libvirt's own RPC, so that
 * the same test runs against the embedded hypervisor and a real one.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createKvmProvider } from '../../lib/kvm/kvm-provider.ts';
import type { Dial, KvmHost, KvmProviderOptions } from '../../lib/kvm/provider-options.ts';
import { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { ERROR_CODE, LibvirtError } from '../../lib/libvirt/errors.ts';
import type { Collector } from '../../lib/provider/collection.ts';
import type { CreateRequest, Provider } from '../../lib/provider/provider.ts';
import type { WorkMessage } from '../../lib/provider/work.ts';

export interface QueuedMessage {
  readonly message: WorkMessage;
  /** Milliseconds since the epoch by the harness's clock. */
  readonly dueAt: number;
}

/** A provider for one invocation; `await using` closes it. */
export type TestProvider = Provider & Collector & AsyncDisposable;

export interface FleetOptions {
  readonly fleet: string;
  readonly hosts: readonly KvmHost[];
  readonly dial: Dial;
  readonly imageUrl: string;
  readonly imageChecksum: string;
  readonly imageFormat?: 'raw' | 'qcow2';
}

export class FleetHarness {
  readonly options: FleetOptions;
  readonly queue: QueuedMessage[] = [];
  readonly reports: { readonly event: string; readonly fields: object }[] = [];
  #clockOffsetMs = 0;

  constructor(options: FleetOptions) {
    this.options = options;
  }

  readonly now = (): number => Date.now() + this.#clockOffsetMs;

  advance(seconds: number): void {
    this.#clockOffsetMs += seconds * 1000;
  }

  /** As the API has it by default; `canImport` makes it the worker's. */
  provider(overrides: Partial<KvmProviderOptions> = {}): TestProvider {
    const provider = createKvmProvider({
      fleet: this.options.fleet,
      hosts: this.options.hosts,
      machineTypes: { small: { vcpus: 1, memoryMiB: 128 } },
      images: {
        tiny: {
          url: this.options.imageUrl,
          format: this.options.imageFormat ?? 'raw',
          checksum: this.options.imageChecksum,
        },
      },
      diskSizeGb: 1,
      vendorData: '',
      readiness: { cloudInit: true },
      deadlines: { createSeconds: 3600, deleteSeconds: 600 },
      dial: this.options.dial,
      enqueue: async (message, delaySeconds) => {
        this.queue.push({ message, dueAt: this.now() + delaySeconds * 1000 });
      },
      fetch,
      now: this.now,
      randomUuid: randomUUID,
      deadlineAt: this.now() + 60_000,
      canImport: false,
      report: (event, fields) => this.reports.push({ event, fields }),
      ...overrides,
    });
    return Object.assign(provider, { [Symbol.asyncDispose]: () => provider.close() });
  }

  worker(overrides: Partial<KvmProviderOptions> = {}): TestProvider {
    return this.provider({ canImport: true, ...overrides });
  }

  async use<T>(
    work: (provider: TestProvider) => Promise<T>,
    overrides: Partial<KvmProviderOptions> = {},
  ): Promise<T> {
    await using provider = this.provider(overrides);
    return await work(provider);
  }

  /** Imports the image through a VM that is deleted again, so that later creates find it on the host. */
  async warmUp(host: string): Promise<void> {
    const name = `warm-${randomUUID().slice(0, 8)}`;
    await using worker = this.worker();
    const { instance } = await worker.create(this.request(name, host));
    await worker.delete(instance.id);
    this.queue.length = 0;
  }

  request(name: string, host: string, more: Partial<CreateRequest> = {}): CreateRequest {
    return { name, placement: { host, machineType: 'small', image: 'tiny' }, ...more };
  }

  /**
   * Delivers every message that is due now, each with a fresh worker; what the workers send waits for the next call,
   * since a watch on a guest that never shows an address sends itself again for as long as the deadline lasts.
   */
  async drain({ times = 1 } = {}): Promise<void> {
    const due = this.queue.filter(({ dueAt }) => dueAt <= this.now());
    for (const queued of due) {
      this.queue.splice(this.queue.indexOf(queued), 1);
      await Promise.all(
        Array.from({ length: times }, async () => {
          await using worker = this.worker();
          await worker.continueWork(queued.message);
        }),
      );
    }
  }
}

/** A host as a test sees it behind the provider's back. */
export class HostProbe {
  readonly #connection: LibvirtConnection;
  readonly #close: () => Promise<void>;
  readonly pool: string;

  private constructor(connection: LibvirtConnection, close: () => Promise<void>, pool: string) {
    this.#connection = connection;
    this.#close = close;
    this.pool = pool;
  }

  static async open(dial: Dial, host: KvmHost): Promise<HostProbe> {
    const carrier = await dial(host.name, { timeoutMs: 20_000 });
    const connection = await LibvirtConnection.open(carrier.stream, { timeoutMs: 20_000 });
    return new HostProbe(connection, () => carrier.close(), host.pool);
  }

  get connection(): LibvirtConnection {
    return this.#connection;
  }

  async close(): Promise<void> {
    await this.#connection.close();
    await this.#close();
  }

  async domainNames(): Promise<string[]> {
    const { domains } = await this.#connection.call('connectListAllDomains', { needResults: 1, flags: 0 });
    return domains.map(({ name }) => name).sort();
  }

  async domain(name: string) {
    return (await this.#connection.call('domainLookupByName', { name })).dom;
  }

  async domainXml(name: string): Promise<string> {
    return (await this.#connection.call('domainGetXmlDesc', { dom: await this.domain(name), flags: 2 })).xml;
  }

  async domainState(name: string): Promise<number> {
    return (await this.#connection.call('domainGetState', { dom: await this.domain(name), flags: 0 })).state;
  }

  async poolHandle() {
    return (await this.#connection.call('storagePoolLookupByName', { name: this.pool })).pool;
  }

  async volumeNames(): Promise<string[]> {
    const pool = await this.poolHandle();
    const { vols } = await this.#connection.call('storagePoolListAllVolumes', {
      pool,
      needResults: 1,
      flags: 0,
    });
    return vols.map(({ name }) => name).sort();
  }

  /** Volumes that belong to VMs of this name, whatever their incarnation. */
  async vmVolumes(fleet: string, name: string): Promise<string[]> {
    return (await this.volumeNames()).filter((volume) =>
      new RegExp(`^kvmfn_${fleet}_[a-z0-9-]+_${name}_`).test(volume),
    );
  }

  async volumeBytes(name: string): Promise<Buffer> {
    const { vol } = await this.#connection.call('storageVolLookupByName', {
      pool: await this.poolHandle(),
      name,
    });
    const chunks: Uint8Array[] = [];
    const args = { vol, offset: 0n, length: 0n, flags: 0 };
    for await (const chunk of this.#connection.download('storageVolDownload', args)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  async createVolume(name: string, bytes: Uint8Array): Promise<void> {
    const xml = `<volume><name>${name}</name><capacity unit="bytes">${bytes.length}</capacity><target><format type="raw"/></target></volume>`;
    const { vol } = await this.#connection.call('storageVolCreateXml', {
      pool: await this.poolHandle(),
      xml,
      flags: 0,
    });
    await this.#connection.upload(
      'storageVolUpload',
      { vol, offset: 0n, length: BigInt(bytes.length), flags: 0 },
      (async function* () {
        yield bytes;
      })(),
    );
  }

  async deleteVolume(name: string): Promise<void> {
    const { vol } = await this.#connection.call('storageVolLookupByName', {
      pool: await this.poolHandle(),
      name,
    });
    await this.#connection.call('storageVolDelete', { vol, flags: 0 });
  }

  async define(xml: string): Promise<void> {
    await this.#connection.call('domainDefineXml', { xml });
  }

  async start(name: string): Promise<void> {
    await this.#connection.call('domainCreate', { dom: await this.domain(name) });
  }

  /** Removes a domain whatever its state; none is fine. */
  async purge(name: string): Promise<void> {
    try {
      const dom = await this.domain(name);
      await this.#connection.call('domainDestroy', { dom }).catch(() => undefined);
      await this.#connection.call('domainUndefineFlags', { dom, flags: 7 }).catch(() => undefined);
    } catch (error) {
      if (!(error instanceof LibvirtError) || error.code !== ERROR_CODE.noDomain) throw error;
    }
  }
}

/** Serves one image on loopback. */
export class ImageServer {
  readonly bytes: Buffer;
  readonly #server: Server;

  private constructor(server: Server, bytes: Buffer) {
    this.#server = server;
    this.bytes = bytes;
  }

  static async start(bytes: Buffer): Promise<ImageServer> {
    const server = createServer((_request, response) => {
      response.setHeader('content-length', bytes.length);
      response.end(bytes);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new ImageServer(server, bytes);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/tiny.img`;
  }

  get checksum(): string {
    return `sha256:${createHash('sha256').update(this.bytes).digest('hex')}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A raw disk of one MiB with a boot sector's signature; `content` makes it another image than the next. */
export function tinyRawImage(content = 'kvm-functions test image'): Buffer {
  const disk = Buffer.alloc(1024 ** 2);
  disk.writeUInt16BE(0x55aa, 510);
  disk.write(content, 4096);
  return disk;
}
