/**
 * The handles and records that libvirt's procedures carry, as remote_protocol.x declares them (names in camelCase).
 * Handles are values, not references: the daemon looks a domain up by its UUID on every call.
 */
import {
  case as arm,
  array,
  double,
  field,
  type Infer,
  int32,
  int64,
  opaque,
  struct,
  uint32,
  uint64,
  union,
} from '@stellar/js-xdr';
import { optionalText, text } from './text.ts';

/** Limits of remote_protocol.x: a list longer than this is a protocol error, not a big host. */
export const LIST_MAX = {
  domains: 16_384,
  storagePools: 16_384,
  storageVolumes: 16_384,
  authTypes: 20,
  domainStats: 262_144,
  domainInterfaces: 2_048,
  ipAddresses: 2_048,
} as const;

/** remote_uuid: 16 raw bytes (see uuid.ts for the text form). */
export const uuid = opaque(16, 'remote_uuid');

/** remote_nonnull_domain. `id` is -1 for a domain that is not running. */
export const domain = struct('remote_nonnull_domain', { name: text(), uuid, id: int32() });
export type DomainHandle = Infer<typeof domain>;

/** remote_nonnull_network; here only because an error may name one. */
export const network = struct('remote_nonnull_network', { name: text(), uuid });

/** remote_nonnull_interface: a network interface of the host, not of a domain. */
export const hostInterface = struct('remote_nonnull_interface', { name: text(), mac: text() });

/** remote_nonnull_storage_pool. */
export const storagePool = struct('remote_nonnull_storage_pool', { name: text(), uuid });
export type StoragePoolHandle = Infer<typeof storagePool>;

/** remote_nonnull_storage_vol. `pool` is the pool's name; `key` is the path for file-based pools. */
export const storageVol = struct('remote_nonnull_storage_vol', { pool: text(), name: text(), key: text() });
export type StorageVolHandle = Infer<typeof storageVol>;

/** virTypedParameterType. */
export const TYPED_PARAM = {
  int: 1,
  uint: 2,
  llong: 3,
  ullong: 4,
  double: 5,
  boolean: 6,
  string: 7,
} as const;

/** remote_typed_param. The value is called `value` in every arm: who knows the field's name knows its type. */
export const typedParam = struct('remote_typed_param', {
  field: text(),
  value: union('remote_typed_param_value', {
    switchOn: int32(),
    cases: [
      arm('int', TYPED_PARAM.int, field('value', int32())),
      arm('uint', TYPED_PARAM.uint, field('value', uint32())),
      arm('llong', TYPED_PARAM.llong, field('value', int64())),
      arm('ullong', TYPED_PARAM.ullong, field('value', uint64())),
      arm('double', TYPED_PARAM.double, field('value', double())),
      arm('boolean', TYPED_PARAM.boolean, field('value', int32())),
      arm('string', TYPED_PARAM.string, field('value', text())),
    ],
  }),
});
export type TypedParam = Infer<typeof typedParam>;

/** remote_domain_stats_record. */
export const domainStatsRecord = struct('remote_domain_stats_record', {
  dom: domain,
  params: array(typedParam, LIST_MAX.domainStats),
});

/** remote_domain_ip_addr. `type`: IP_ADDR_TYPE; `prefix` in bits, 0 when unknown (ARP). */
export const domainIpAddr = struct('remote_domain_ip_addr', {
  type: int32(),
  addr: text(),
  prefix: uint32(),
});

/** remote_domain_interface. `hwaddr` is the MAC in the source's own spelling. */
export const domainInterface = struct('remote_domain_interface', {
  name: text(),
  hwaddr: optionalText(),
  addrs: array(domainIpAddr, LIST_MAX.ipAddresses),
});
export type DomainInterface = Infer<typeof domainInterface>;
