/** The public surface of the libvirt client, as a package of its own would export it. */
export { type CallOptions, LibvirtConnection, type OpenOptions } from './connection.ts';
export * from './constants.ts';
export {
  ERROR_CODE,
  LibvirtAuthError,
  LibvirtError,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from './errors.ts';
export type { DomainHandle, DomainInterface, StoragePoolHandle, StorageVolHandle } from './objects.ts';
export type {
  CallProcedureName,
  DownloadProcedureName,
  ProcedureArgs,
  ProcedureName,
  ProcedureResult,
  UploadProcedureName,
} from './protocol.ts';
export { formatUuid, parseUuid } from './uuid.ts';
export { whileBuilding } from './while-building.ts';
