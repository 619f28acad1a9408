/**
 * Flags and enumerations of libvirt's public headers, by libvirt's names without the `VIR_` prefix, so that its
 * documentation can be searched for them. Flags combine with `|`.
 */

/** virDomainState. */
export const DOMAIN_STATE = {
  nostate: 0,
  running: 1,
  blocked: 2,
  paused: 3,
  shutdown: 4,
  shutoff: 5,
  crashed: 6,
  pmsuspended: 7,
} as const;

/** virDomainShutoffReason: the `reason` of domainGetState with state `shutoff`. */
export const DOMAIN_SHUTOFF_REASON = {
  unknown: 0,
  shutdown: 1,
  destroyed: 2,
  crashed: 3,
  migrated: 4,
  saved: 5,
  failed: 6,
  fromSnapshot: 7,
  daemon: 8,
} as const;

/** virDomainModificationImpact: which of the two definitions a call reads or writes. */
export const DOMAIN_AFFECT_CURRENT = 0;
export const DOMAIN_AFFECT_LIVE = 1;
export const DOMAIN_AFFECT_CONFIG = 2;

/** virDomainXMLFlags. */
export const DOMAIN_XML_SECURE = 1;
export const DOMAIN_XML_INACTIVE = 2;

/** virDomainMetadataType. */
export const DOMAIN_METADATA_DESCRIPTION = 0;
export const DOMAIN_METADATA_TITLE = 1;
export const DOMAIN_METADATA_ELEMENT = 2;

/** virDomainDefineFlags. */
export const DOMAIN_DEFINE_VALIDATE = 1;

/** virDomainCreateFlags (domainCreateWithFlags). */
export const DOMAIN_START_PAUSED = 1;

/** virDomainDestroyFlagsValues: graceful gives up (code 38) instead of SIGKILL. */
export const DOMAIN_DESTROY_DEFAULT = 0;
export const DOMAIN_DESTROY_GRACEFUL = 1;

/** virDomainShutdownFlagValues; 0 lets the driver choose. */
export const DOMAIN_SHUTDOWN_DEFAULT = 0;
export const DOMAIN_SHUTDOWN_ACPI_POWER_BTN = 1;
export const DOMAIN_SHUTDOWN_GUEST_AGENT = 2;

/** virDomainUndefineFlagsValues. Checkpoints since libvirt 5.6, TPM since 8.9; older daemons answer 8 to unknown flags. */
export const DOMAIN_UNDEFINE_MANAGED_SAVE = 1;
export const DOMAIN_UNDEFINE_SNAPSHOTS_METADATA = 2;
export const DOMAIN_UNDEFINE_NVRAM = 4;
export const DOMAIN_UNDEFINE_KEEP_NVRAM = 8;
export const DOMAIN_UNDEFINE_CHECKPOINTS_METADATA = 16;
export const DOMAIN_UNDEFINE_TPM = 32;
export const DOMAIN_UNDEFINE_KEEP_TPM = 64;

/** virDomainInterfaceAddressesSource. `agent` asks the guest and can block; `arp` reads the host's table. */
export const INTERFACE_ADDRESSES_SRC = { lease: 0, agent: 1, arp: 2 } as const;

/** virIPAddrType. */
export const IP_ADDR_TYPE = { ipv4: 0, ipv6: 1 } as const;

/** virDomainAgentResponseTimeoutValues: the special values of domainAgentSetResponseTimeout. */
export const AGENT_RESPONSE_TIMEOUT = { block: -2, default: -1, nowait: 0 } as const;

/** virConnectListAllDomainsFlags; 0 lists all. */
export const CONNECT_LIST_DOMAINS_ACTIVE = 1;
export const CONNECT_LIST_DOMAINS_INACTIVE = 2;
export const CONNECT_LIST_DOMAINS_PERSISTENT = 4;
export const CONNECT_LIST_DOMAINS_TRANSIENT = 8;

/** virConnectListAllStoragePoolsFlags; 0 lists all. */
export const CONNECT_LIST_STORAGE_POOLS_INACTIVE = 1;
export const CONNECT_LIST_STORAGE_POOLS_ACTIVE = 2;

/** virDomainStatsTypes. */
export const DOMAIN_STATS_STATE = 1;

/** virConnectGetAllDomainStatsFlags. `nowait` skips what would wait for a busy domain (since libvirt 4.5). */
export const CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE = 1;
export const CONNECT_GET_ALL_DOMAINS_STATS_INACTIVE = 2;
export const CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT = 0x2000_0000;

/** virStoragePoolState. */
export const STORAGE_POOL_STATE = {
  inactive: 0,
  building: 1,
  running: 2,
  degraded: 3,
  inaccessible: 4,
} as const;

/** virStoragePoolCreateFlags. */
export const STORAGE_POOL_CREATE_WITH_BUILD = 1;

/** virStorageVolType. */
export const STORAGE_VOL_TYPE = { file: 0, block: 1, dir: 2, network: 3, netdir: 4, ploop: 5 } as const;

/** virStorageVolCreateFlags. */
export const STORAGE_VOL_CREATE_PREALLOC_METADATA = 1;

/** virStorageVolDeleteFlags. */
export const STORAGE_VOL_DELETE_NORMAL = 0;

/** virStorageVolResizeFlags. */
export const STORAGE_VOL_RESIZE_ALLOCATE = 1;
export const STORAGE_VOL_RESIZE_DELTA = 2;
export const STORAGE_VOL_RESIZE_SHRINK = 4;

/** remote_auth_type: what a daemon may ask for before it lets a client open. */
export const AUTH_TYPE = { none: 0, sasl: 1, polkit: 2 } as const;

/** virErrorLevel. */
export const ERROR_LEVEL = { none: 0, warning: 1, error: 2 } as const;
