/**
 * The virErrorNumber values (virterror.h) that a client of domains and storage can meet. Codes are for deciding; what
 * each means to a caller is the caller's table, since the same code can be final in one call and passing in another.
 */
export const ERROR_CODE = {
  internalError: 1,
  noMemory: 2,
  noSupport: 3,
  unknownHost: 4,
  noConnect: 5,
  invalidConn: 6,
  invalidDomain: 7,
  invalidArg: 8,
  operationFailed: 9,
  xmlError: 27,
  domExist: 28,
  operationDenied: 29,
  openFailed: 30,
  parseFailed: 32,
  confSyntax: 33,
  xmlDetail: 35,
  systemError: 38,
  rpc: 39,
  noDomain: 42,
  authFailed: 45,
  invalidStoragePool: 46,
  invalidStorageVol: 47,
  noStoragePool: 49,
  noStorageVol: 50,
  operationInvalid: 55,
  noInterface: 57,
  configUnsupported: 67,
  operationTimeout: 68,
  hookScriptFailed: 70,
  invalidStream: 73,
  argumentUnsupported: 74,
  storageProbeFailed: 75,
  storagePoolBuilt: 76,
  operationAborted: 78,
  authCancelled: 79,
  noDomainMetadata: 80,
  overflow: 82,
  operationUnsupported: 84,
  agentUnresponsive: 86,
  resourceBusy: 87,
  accessDenied: 88,
  dbusService: 89,
  storageVolExist: 90,
  cpuIncompatible: 91,
  xmlInvalidSchema: 92,
  authUnavailable: 94,
  noServer: 95,
  noClient: 96,
  agentUnsynced: 97,
  deviceMissing: 99,
  multipleDomains: 110,
} as const;

const nameByCode: ReadonlyMap<number, string> = new Map(
  Object.entries(ERROR_CODE).map(([name, code]) => [code, name]),
);

/** The name in ERROR_CODE, or `code N` for one that is not in it. */
export const errorCodeName = (code: number): string => nameByCode.get(code) ?? `code ${code}`;
