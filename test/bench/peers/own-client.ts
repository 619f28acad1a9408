/**
 * This project as a warm peer: its tunnel, its libvirt client and its provider, as a function that is warm uses them. Made
 * into a bundle by the build that makes the functions'.
 */
import { createReadStream, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { IN_FLIGHT, mapBounded } from '../../../lib/kvm/bounded-map.ts';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import {
  DOMAIN_AFFECT_CONFIG,
  DOMAIN_METADATA_ELEMENT,
  INTERFACE_ADDRESSES_SRC,
} from '../../../lib/libvirt/constants.ts';
import { LibvirtError } from '../../../lib/libvirt/errors.ts';
import type { DomainHandle } from '../../../lib/libvirt/objects.ts';
import { type KnownHosts, parseKnownHosts } from '../../../lib/ssh/known-hosts.ts';
import { openTunnel, type Tunnel } from '../../../lib/ssh/tunnel.ts';
import type { Endpoint } from '../ssh-access.ts';
import type {
  ListAnswer,
  ListOrder,
  PeerSettings,
  ReadyOrder,
  SessionAnswer,
  SessionOrder,
  UploadOrder,
  VmOrder,
} from './orders.ts';
import { listWithProvider, makeOrTakeAway } from './own-provider.ts';
import type { Timed } from './warm-peer.ts';

type Order = SessionOrder | ListOrder | VmOrder | UploadOrder | ReadyOrder;

interface Peer {
  readonly settings: PeerSettings;
  readonly privateKey: Buffer;
  readonly knownHosts: KnownHosts;
}

const TIMEOUT_MS = 120_000;
/** As lib/image reads a file. */
const READ_BYTES = 256 * 1024;

async function carryOut(peer: Peer, order: Order): Promise<Timed> {
  switch (order.op) {
    case 'ready':
      return { ms: 0 };
    case 'session':
      return await runSession(peer, order);
    case 'list-provider':
      return await listWithProvider(peer.settings, () => dial(peer, order), order);
    case 'list-together':
      return await listWithClient(peer, order);
    case 'create':
    case 'delete':
      return await makeOrTakeAway(peer.settings, () => dial(peer, order), order);
    case 'upload':
      return await upload(peer, order);
    default:
      throw new Error(`no order ${order.op}`);
  }
}

async function runSession(peer: Peer, order: SessionOrder): Promise<SessionAnswer> {
  const startedAt = performance.now();
  const answer = await withConnection(peer, order, async (connection) => {
    const { dom } = await connection.call('domainLookupByName', { name: order.vm });
    const [{ state }, metadata, { ifaces }] = await Promise.all([
      connection.call('domainGetState', { dom, flags: 0 }),
      readMetadata(peer, connection, dom),
      connection.call('domainInterfaceAddresses', { dom, source: INTERFACE_ADDRESSES_SRC.lease, flags: 0 }),
    ]);
    const addresses = ifaces.flatMap(({ addrs }) => addrs.map(({ addr }) => addr));
    return { state, metadata: metadata ?? '', addresses };
  });
  return { ms: performance.now() - startedAt, ...answer };
}

/** The same calls as the peers make, as many together as the provider allows itself. */
async function listWithClient(peer: Peer, order: ListOrder): Promise<ListAnswer> {
  return await withConnection(peer, order, async (connection) => {
    const startedAt = performance.now();
    const { domains } = await connection.call('connectListAllDomains', { needResults: 1, flags: 0 });
    const read = await mapBounded(domains, IN_FLIGHT, async (dom) => {
      const [, metadata] = await Promise.all([
        connection.call('domainGetState', { dom, flags: 0 }),
        readMetadata(peer, connection, dom),
      ]);
      return metadata;
    });
    const ms = performance.now() - startedAt;
    return {
      ms,
      count: read.filter((metadata) => metadata?.includes(`fleet="${peer.settings.fleet}"`)).length,
    };
  });
}

async function upload(peer: Peer, order: UploadOrder): Promise<Timed> {
  const startedAt = performance.now();
  const { size } = await stat(order.file);
  await withConnection(peer, order, async (connection) => {
    const { pool } = await connection.call('storagePoolLookupByName', { name: peer.settings.pool });
    const { vol } = await connection.call('storageVolLookupByName', { pool, name: order.volume });
    const source = createReadStream(order.file, { highWaterMark: READ_BYTES });
    await connection.upload('storageVolUpload', { vol, offset: 0n, length: BigInt(size), flags: 0 }, source, {
      timeoutMs: TIMEOUT_MS,
    });
  });
  return { ms: performance.now() - startedAt };
}

/** Null for a domain that is not this project's. */
async function readMetadata(
  { settings }: Peer,
  connection: LibvirtConnection,
  dom: DomainHandle,
): Promise<string | null> {
  const args = {
    dom,
    type: DOMAIN_METADATA_ELEMENT,
    uri: settings.metadataUri,
    flags: DOMAIN_AFFECT_CONFIG,
  };
  try {
    return (await connection.call('domainGetMetadata', args)).metadata;
  } catch (error) {
    if (error instanceof LibvirtError) return null;
    throw error;
  }
}

async function withConnection<T>(
  peer: Peer,
  endpoint: Endpoint,
  work: (connection: LibvirtConnection) => Promise<T>,
): Promise<T> {
  const tunnel = await dial(peer, endpoint);
  try {
    const connection = await LibvirtConnection.open(tunnel.stream);
    const result = await work(connection);
    await connection.close();
    return result;
  } finally {
    await tunnel.close();
  }
}

function dial({ settings, privateKey, knownHosts }: Peer, { address, port }: Endpoint): Promise<Tunnel> {
  const { user, socketPath } = settings;
  return openTunnel(
    { address, port, user, privateKey, knownHosts, socketPath, transport: 'socket' },
    { timeoutMs: TIMEOUT_MS },
  );
}

async function main(): Promise<void> {
  const settings = JSON.parse(process.argv.at(-1) ?? '') as PeerSettings;
  const peer: Peer = {
    settings,
    privateKey: readFileSync(settings.privateKeyFile),
    knownHosts: parseKnownHosts(readFileSync(settings.knownHostsFile, 'utf8')),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const answer = await carryOut(peer, JSON.parse(line) as Order).catch((error: unknown) => ({
      error: error instanceof Error ? error.message : String(error),
    }));
    console.log(JSON.stringify(answer));
  }
}

void main();
