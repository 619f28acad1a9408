/** What the suites of the embedded daemon share: a client with short names, and definitions to send. */
import { randomUUID } from 'node:crypto';
import {
  type DomainHandle,
  type LibvirtConnection,
  LibvirtError,
  parseUuid,
  type StoragePoolHandle,
  type StorageVolHandle,
} from '../../../../lib/libvirt/index.ts';

export const AGENT_CHANNEL =
  "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>";

export interface DomainSketch {
  readonly name: string;
  readonly uuid?: string;
  readonly virtType?: string;
  readonly metadata?: string;
  readonly devices?: string;
  readonly memoryMiB?: number;
  readonly cpu?: string;
}

export const domainXml = (sketch: DomainSketch): string =>
  `<domain type='${sketch.virtType ?? 'qemu'}'><name>${sketch.name}</name><uuid>${sketch.uuid ?? randomUUID()}</uuid>
  <metadata>${sketch.metadata ?? ''}</metadata>
  <memory unit='MiB'>${sketch.memoryMiB ?? 32}</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
  <cpu mode='${sketch.cpu ?? 'maximum'}'/>
  <devices>${sketch.devices ?? ''}</devices></domain>`;

export const diskXml = (path: string, target = 'vda', format = 'qcow2', readOnly = false): string =>
  `<disk type='file' device='disk'><driver name='qemu' type='${format}'/><source file='${path}'/>` +
  `<target dev='${target}' bus='virtio'/>${readOnly ? '<readonly/>' : ''}</disk>`;

export const bridgeXml = (bridge: string, mac: string): string =>
  `<interface type='bridge'><mac address='${mac}'/><source bridge='${bridge}'/><model type='virtio'/></interface>`;

export const rawVolumeXml = (name: string, bytes: number): string =>
  `<volume><name>${name}</name><capacity>${bytes}</capacity><allocation>0</allocation>` +
  "<target><format type='raw'/></target></volume>";

export const overlayXml = (name: string, backingPath: string, format = 'qcow2', capacity = ''): string =>
  `<volume><name>${name}</name>${capacity}<target><format type='qcow2'/><compat>1.1</compat></target>` +
  `<backingStore><path>${backingPath}</path><format type='${format}'/></backingStore></volume>`;

export const qcow2VolumeXml = (name: string, gib: number): string =>
  `<volume><name>${name}</name><capacity unit='GiB'>${gib}</capacity><target><format type='qcow2'/></target></volume>`;

/** The bytes that make an ISO 9660 image as far as a label is concerned. */
export function isoImage(label: string, fill = 0): Uint8Array {
  const image = Buffer.alloc(40 * 2048, fill);
  image.fill(0, 16 * 2048, 17 * 2048);
  image.write(`\u0001CD001\u0001`, 16 * 2048, 'latin1');
  image.write(label.padEnd(32), 16 * 2048 + 40, 'latin1');
  return image;
}

/** Calls by libvirt's names, with the flags that most of them are used with. */
export class DaemonClient implements AsyncDisposable {
  readonly connection: LibvirtConnection;
  readonly pool: StoragePoolHandle;

  private constructor(connection: LibvirtConnection, pool: StoragePoolHandle) {
    this.connection = connection;
    this.pool = pool;
  }

  static async open(connecting: LibvirtConnection | Promise<LibvirtConnection>, pool = 'default') {
    const connection = await connecting;
    const found = await connection.call('storagePoolLookupByName', { name: pool });
    return new DaemonClient(connection, found.pool);
  }

  async define(sketch: DomainSketch | string): Promise<DomainHandle> {
    const xml = typeof sketch === 'string' ? sketch : domainXml(sketch);
    return (await this.connection.call('domainDefineXmlFlags', { xml, flags: 0 })).dom;
  }

  async lookup(name: string): Promise<DomainHandle> {
    return (await this.connection.call('domainLookupByName', { name })).dom;
  }

  async start(dom: DomainHandle, flags = 0): Promise<DomainHandle> {
    return (await this.connection.call('domainCreateWithFlags', { dom, flags })).dom;
  }

  async destroy(dom: DomainHandle): Promise<void> {
    await this.connection.call('domainDestroyFlags', { dom, flags: 0 });
  }

  async undefine(dom: DomainHandle, flags = 7): Promise<void> {
    await this.connection.call('domainUndefineFlags', { dom, flags });
  }

  async xml(dom: DomainHandle, flags = 0): Promise<string> {
    return (await this.connection.call('domainGetXmlDesc', { dom, flags })).xml;
  }

  async state(dom: DomainHandle): Promise<[state: number, reason: number]> {
    const { state, reason } = await this.connection.call('domainGetState', { dom, flags: 0 });
    return [state, reason];
  }

  async setMetadata(dom: DomainHandle, uri: string, metadata: string | null, flags: number, key = 'k') {
    await this.connection.call('domainSetMetadata', { dom, type: 2, metadata, key, uri, flags });
  }

  async getMetadata(dom: DomainHandle, uri: string, flags: number): Promise<string> {
    return (await this.connection.call('domainGetMetadata', { dom, type: 2, uri, flags })).metadata;
  }

  async names(flags = 0): Promise<string[]> {
    const { domains } = await this.connection.call('connectListAllDomains', { needResults: 1, flags });
    return domains.map((dom) => dom.name);
  }

  async createVolume(xml: string): Promise<StorageVolHandle> {
    return (await this.connection.call('storageVolCreateXml', { pool: this.pool, xml, flags: 0 })).vol;
  }

  async volume(name: string): Promise<StorageVolHandle> {
    return (await this.connection.call('storageVolLookupByName', { pool: this.pool, name })).vol;
  }

  async volumeXml(vol: StorageVolHandle): Promise<string> {
    return (await this.connection.call('storageVolGetXmlDesc', { vol, flags: 0 })).xml;
  }

  async capacity(vol: StorageVolHandle): Promise<bigint> {
    return (await this.connection.call('storageVolGetInfo', { vol })).capacity;
  }

  async deleteVolume(vol: StorageVolHandle): Promise<void> {
    await this.connection.call('storageVolDelete', { vol, flags: 0 });
  }

  async refresh(): Promise<void> {
    await this.connection.call('storagePoolRefresh', { pool: this.pool, flags: 0 });
  }

  async upload(vol: StorageVolHandle, chunks: readonly Uint8Array[], { offset = 0n, length = 0n } = {}) {
    await this.connection.upload('storageVolUpload', { vol, offset, length, flags: 0 }, each(chunks));
  }

  async download(vol: StorageVolHandle, { offset = 0n, length = 0n } = {}): Promise<Buffer> {
    const args = { vol, offset, length, flags: 0 };
    const parts: Uint8Array[] = [];
    for await (const part of this.connection.download('storageVolDownload', args)) {
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connection.close();
  }
}

/** A handle nobody has. */
export const staleHandle = (name: string): DomainHandle => ({ name, uuid: parseUuid(randomUUID()), id: -1 });

/** What a refused call was refused with: code, error domain and errno (int1), or nothing when it succeeded. */
export async function refusal(
  call: Promise<unknown>,
): Promise<[code: number, domain: number, int1: number] | undefined> {
  try {
    await call;
    return undefined;
  } catch (error) {
    if (error instanceof LibvirtError) {
      return [error.code, error.domain, error.int1];
    }
    throw error;
  }
}

async function* each(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
