/**
 * The one table of libvirt procedures that are spoken here: number, argument and result schema. Types of calls, the
 * embedded daemon's decoding and the recorded-fixture tests all come from it. Numbers and field orders are those of
 * libvirt's remote_protocol.x, which never change once released, and of qemu_protocol.x for what only the QEMU driver
 * has; field names are its own in camelCase.
 */
import {
  array,
  type Infer,
  int32,
  void as nothing,
  struct,
  uint32,
  uint64,
  type XdrType,
} from '@stellar/js-xdr';
import {
  domain,
  domainInterface,
  domainStatsRecord,
  hostInterface,
  LIST_MAX,
  storagePool,
  storageVol,
  uuid,
} from './objects.ts';
import { charArray, optionalText, text } from './text.ts';

/**
 * REMOTE_PROGRAM and QEMU_PROGRAM: a daemon serves both on one connection. Numbers of procedures are a program's own,
 * so that a number alone names none.
 */
export const PROGRAM = { remote: 0x2000_8086, qemu: 0x2000_8087 } as const;
/** REMOTE_PROTOCOL_VERSION and QEMU_PROTOCOL_VERSION: each program's only one. */
export const PROGRAM_VERSION = 1;

/** What the client and the embedded daemon need to know of one procedure. */
export interface Procedure {
  /** Default `remote`. */
  readonly program?: keyof typeof PROGRAM;
  readonly number: number;
  readonly args: XdrType<unknown>;
  readonly result: XdrType<unknown>;
  /** Data packets follow the reply: from the client (`upload`) or from the daemon (`download`). */
  readonly stream?: 'upload' | 'download';
}

const none = nothing();
const dom = struct('dom', { dom: domain });
const domFlags = struct('dom_flags', { dom: domain, flags: uint32() });
const pool = struct('pool', { pool: storagePool });
const poolFlags = struct('pool_flags', { pool: storagePool, flags: uint32() });
const vol = struct('vol', { vol: storageVol });
const volFlags = struct('vol_flags', { vol: storageVol, flags: uint32() });
const name = struct('name', { name: text() });
const xml = struct('xml', { xml: text() });
const xmlFlags = struct('xml_flags', { xml: text(), flags: uint32() });
const capabilities = struct('capabilities', { capabilities: text() });
const listArgs = struct('list_args', { needResults: int32(), flags: uint32() });
const autostart = struct('autostart', { autostart: int32() });
/** `length` 0 means to the end; both in bytes. */
const transferArgs = struct('transfer_args', {
  vol: storageVol,
  offset: uint64(),
  length: uint64(),
  flags: uint32(),
});

export const procedures = {
  /** `name` is the URI of the driver; null lets the daemon choose. */
  connectOpen: { number: 1, args: struct('open', { name: optionalText(), flags: uint32() }), result: none },
  connectClose: { number: 2, args: none, result: none },
  connectGetVersion: { number: 4, args: none, result: struct('version', { hvVer: uint64() }) },
  /** `memory` in KiB. */
  nodeGetInfo: {
    number: 6,
    args: none,
    result: struct('node_info', {
      model: charArray(32),
      memory: uint64(),
      cpus: int32(),
      mhz: int32(),
      nodes: int32(),
      sockets: int32(),
      cores: int32(),
      threads: int32(),
    }),
  },
  connectGetCapabilities: { number: 7, args: none, result: capabilities },
  domainCreate: { number: 9, args: dom, result: none },
  domainDefineXml: { number: 11, args: xml, result: dom },
  domainDestroy: { number: 12, args: dom, result: none },
  domainGetXmlDesc: { number: 14, args: domFlags, result: xml },
  domainGetAutostart: { number: 15, args: dom, result: autostart },
  /** Memory in KiB, `cpuTime` in nanoseconds. */
  domainGetInfo: {
    number: 16,
    args: dom,
    result: struct('domain_info', {
      state: uint32(),
      maxMem: uint64(),
      memory: uint64(),
      nrVirtCpu: uint32(),
      cpuTime: uint64(),
    }),
  },
  domainLookupByName: { number: 23, args: name, result: dom },
  domainLookupByUuid: { number: 24, args: struct('uuid', { uuid }), result: dom },
  domainSetAutostart: {
    number: 29,
    args: struct('set_autostart', { dom: domain, autostart: int32() }),
    result: none,
  },
  domainShutdown: { number: 33, args: dom, result: none },
  domainUndefine: { number: 35, args: dom, result: none },
  connectGetHostname: { number: 59, args: none, result: struct('hostname', { hostname: text() }) },
  authList: {
    number: 66,
    args: none,
    result: struct('auth_list', { types: array(int32(), LIST_MAX.authTypes) }),
  },
  authPolkit: { number: 70, args: none, result: struct('auth_polkit', { complete: int32() }) },
  storagePoolDefineXml: { number: 77, args: xmlFlags, result: pool },
  storagePoolCreate: { number: 78, args: poolFlags, result: none },
  storagePoolBuild: { number: 79, args: poolFlags, result: none },
  storagePoolDestroy: { number: 80, args: pool, result: none },
  storagePoolUndefine: { number: 82, args: pool, result: none },
  storagePoolRefresh: { number: 83, args: poolFlags, result: none },
  storagePoolLookupByName: { number: 84, args: name, result: pool },
  /** All three sizes in bytes. */
  storagePoolGetInfo: {
    number: 87,
    args: pool,
    result: struct('pool_info', {
      state: uint32(),
      capacity: uint64(),
      allocation: uint64(),
      available: uint64(),
    }),
  },
  storagePoolGetXmlDesc: { number: 88, args: poolFlags, result: xml },
  storagePoolSetAutostart: {
    number: 90,
    args: struct('set_autostart', { pool: storagePool, autostart: int32() }),
    result: none,
  },
  storageVolCreateXml: {
    number: 93,
    args: struct('vol_create', { pool: storagePool, xml: text(), flags: uint32() }),
    result: vol,
  },
  storageVolDelete: { number: 94, args: volFlags, result: none },
  storageVolLookupByName: {
    number: 95,
    args: struct('vol_lookup', { pool: storagePool, name: text() }),
    result: vol,
  },
  storageVolLookupByPath: { number: 97, args: struct('path', { path: text() }), result: vol },
  /** Sizes in bytes. */
  storageVolGetInfo: {
    number: 98,
    args: vol,
    result: struct('vol_info', { type: int32(), capacity: uint64(), allocation: uint64() }),
  },
  storageVolGetXmlDesc: { number: 99, args: volFlags, result: xml },
  /** The result's field is called `name` in libvirt too; it is a path. */
  storageVolGetPath: { number: 100, args: vol, result: name },
  /** In bytes. */
  nodeGetFreeMemory: { number: 102, args: none, result: struct('free_memory', { freeMem: uint64() }) },
  interfaceLookupByName: {
    number: 128,
    args: name,
    result: struct('interface', { iface: hostInterface }),
  },
  interfaceGetXmlDesc: {
    number: 130,
    args: struct('interface_flags', { iface: hostInterface, flags: uint32() }),
    result: xml,
  },
  storagePoolIsActive: { number: 154, args: pool, result: struct('is_active', { active: int32() }) },
  /** major * 1,000,000 + minor * 1,000 + release. */
  connectGetLibVersion: { number: 157, args: none, result: struct('lib_version', { libVer: uint64() }) },
  domainCreateWithFlags: { number: 196, args: domFlags, result: dom },
  storageVolUpload: { number: 208, args: transferArgs, result: none, stream: 'upload' },
  storageVolDownload: { number: 209, args: transferArgs, result: none, stream: 'download' },
  domainGetState: {
    number: 212,
    args: domFlags,
    result: struct('state', { state: int32(), reason: int32() }),
  },
  domainUndefineFlags: { number: 231, args: domFlags, result: none },
  domainDestroyFlags: { number: 234, args: domFlags, result: none },
  domainShutdownFlags: { number: 258, args: domFlags, result: none },
  /** `capacity` in bytes. */
  storageVolResize: {
    number: 260,
    args: struct('vol_resize', { vol: storageVol, capacity: uint64(), flags: uint32() }),
    result: none,
  },
  /** `metadata` null removes the element; `key` is the prefix it is stored with, `uri` its namespace. */
  domainSetMetadata: {
    number: 264,
    args: struct('set_metadata', {
      dom: domain,
      type: int32(),
      metadata: optionalText(),
      key: optionalText(),
      uri: optionalText(),
      flags: uint32(),
    }),
    result: none,
  },
  domainGetMetadata: {
    number: 265,
    args: struct('get_metadata', { dom: domain, type: int32(), uri: optionalText(), flags: uint32() }),
    result: struct('metadata', { metadata: text() }),
  },
  /** With `needResults` 0 only the count `ret` comes back. */
  connectListAllDomains: {
    number: 273,
    args: listArgs,
    result: struct('domains', { domains: array(domain, LIST_MAX.domains), ret: uint32() }),
  },
  connectListAllStoragePools: {
    number: 281,
    args: listArgs,
    result: struct('pools', { pools: array(storagePool, LIST_MAX.storagePools), ret: uint32() }),
  },
  storagePoolListAllVolumes: {
    number: 282,
    args: struct('list_volumes', { pool: storagePool, needResults: int32(), flags: uint32() }),
    result: struct('volumes', { vols: array(storageVol, LIST_MAX.storageVolumes), ret: uint32() }),
  },
  connectGetDomainCapabilities: {
    number: 342,
    args: struct('domain_capabilities', {
      emulatorbin: optionalText(),
      arch: optionalText(),
      machine: optionalText(),
      virttype: optionalText(),
      flags: uint32(),
    }),
    result: capabilities,
  },
  /** An empty `doms` means all that the flags choose. */
  connectGetAllDomainStats: {
    number: 344,
    args: struct('stats_args', {
      doms: array(domain, LIST_MAX.domains),
      stats: uint32(),
      flags: uint32(),
    }),
    result: struct('stats', { retStats: array(domainStatsRecord, LIST_MAX.domains) }),
  },
  domainDefineXmlFlags: { number: 350, args: xmlFlags, result: dom },
  domainInterfaceAddresses: {
    number: 353,
    args: struct('interface_addresses', { dom: domain, source: uint32(), flags: uint32() }),
    result: struct('interfaces', { ifaces: array(domainInterface, LIST_MAX.domainInterfaces) }),
  },
  /** `timeout` in seconds, or one of AGENT_RESPONSE_TIMEOUT. Since libvirt 5.10. */
  domainAgentSetResponseTimeout: {
    number: 420,
    args: struct('agent_timeout', { dom: domain, timeout: int32(), flags: uint32() }),
    result: struct('agent_timeout_result', { result: int32() }),
  },
  /** virDomainQemuAgentCommand: `cmd` and `result` are the agent's own JSON; `timeout` in seconds. Taints the domain. */
  domainAgentCommand: {
    program: 'qemu',
    number: 3,
    args: struct('agent_command', { dom: domain, cmd: text(), timeout: int32(), flags: uint32() }),
    result: struct('agent_command_result', { result: optionalText() }),
  },
} as const satisfies Record<string, Procedure>;

export type ProcedureName = keyof typeof procedures;
export type ProcedureArgs<N extends ProcedureName> = Infer<(typeof procedures)[N]['args']>;
export type ProcedureResult<N extends ProcedureName> = Infer<(typeof procedures)[N]['result']>;

type StreamProcedure<Direction> = {
  [N in ProcedureName]: (typeof procedures)[N] extends { readonly stream: Direction } ? N : never;
}[ProcedureName];
export type UploadProcedureName = StreamProcedure<'upload'>;
export type DownloadProcedureName = StreamProcedure<'download'>;
/** Procedures that end with their reply. */
export type CallProcedureName = Exclude<ProcedureName, UploadProcedureName | DownloadProcedureName>;

/** The number of the program that serves a procedure. */
export const programOf = (procedure: ProcedureName): number => {
  const { program = 'remote' }: Procedure = procedures[procedure];
  return PROGRAM[program];
};

const isProcedureName = (name: string): name is ProcedureName => Object.hasOwn(procedures, name);

/** What tells one procedure from all others: its program's number and its own. */
export interface ProcedureId {
  readonly program: number;
  readonly procedure: number;
}

const keyOf = ({ program, procedure }: ProcedureId): string => `${program}:${procedure}`;

const namesById: ReadonlyMap<string, ProcedureName> = new Map(
  Object.keys(procedures)
    .filter(isProcedureName)
    .map((known) => [keyOf({ program: programOf(known), procedure: procedures[known].number }), known]),
);

/** The name of a procedure, or undefined for one that is not spoken here. A message's header is such an id. */
export const procedureName = (id: ProcedureId): ProcedureName | undefined => namesById.get(keyOf(id));
