/** Opening, authentication and what the host says about itself. */
import { AUTH_TYPE } from '../../../../lib/libvirt/constants.ts';
import { ERROR_CODE } from '../../../../lib/libvirt/error-codes.ts';
import { capabilitiesXml, domainCapabilitiesXml } from '../state/capabilities.ts';
import {
  apiInvalidArgument,
  DaemonError,
  ERROR_DOMAIN,
  internalError,
  invalidArgument,
  rpcError,
} from './daemon-error.ts';
import type { AuthMode, Handlers } from './handler.ts';

/** libvirt 9.0.0 and QEMU 7.2.22, as major * 1,000,000 + minor * 1,000 + release. */
const LIBVIRT_VERSION = 9_000_000n;
const QEMU_VERSION = 7_002_022n;
const URIS = ['', 'qemu:///system'];

const AUTH_TYPES: Readonly<Record<AuthMode, number>> = {
  none: AUTH_TYPE.none,
  polkit: AUTH_TYPE.polkit,
  'polkit-denied': AUTH_TYPE.polkit,
  'polkit-root': AUTH_TYPE.none,
  sasl: AUTH_TYPE.sasl,
};

export const connectProcedures: Handlers<
  | 'connectOpen'
  | 'connectClose'
  | 'authList'
  | 'authPolkit'
  | 'connectGetVersion'
  | 'connectGetLibVersion'
  | 'connectGetHostname'
  | 'connectGetCapabilities'
  | 'connectGetDomainCapabilities'
  | 'nodeGetInfo'
  | 'nodeGetFreeMemory'
> = {
  connectOpen: ({ name }, { session }) => {
    if (session.isOpen) {
      // A second open breaks the session: the daemon has dropped its driver connection when it answers.
      session.isOpen = false;
      throw internalError(ERROR_DOMAIN.rpc, 'connection already open');
    }
    if (name === null) {
      throw internalError(ERROR_DOMAIN.rpc, 'connection not open');
    }
    if (!URIS.includes(name)) {
      throw new DaemonError({
        code: ERROR_CODE.noConnect,
        domain: ERROR_DOMAIN.none,
        message: `no connection driver available for ${name}`,
      });
    }
    session.isOpen = true;
  },
  connectClose: () => undefined,
  authList: (_args, { auth, session }) => {
    session.isAuthenticated ||= auth === 'polkit-root';
    return { types: [session.isAuthenticated ? AUTH_TYPE.none : AUTH_TYPES[auth]] };
  },
  authPolkit: (_args, { auth, session }) => {
    if (auth === 'polkit-denied') {
      throw new DaemonError({
        code: ERROR_CODE.authUnavailable,
        domain: ERROR_DOMAIN.rpc,
        message:
          "authentication unavailable: no polkit agent available to authenticate action 'org.libvirt.unix.manage'",
      });
    }
    if (auth !== 'polkit') {
      throw rpcError('authentication failed');
    }
    session.isAuthenticated = true;
    return { complete: 1 };
  },
  connectGetVersion: () => ({ hvVer: QEMU_VERSION }),
  connectGetLibVersion: () => ({ libVer: LIBVIRT_VERSION }),
  connectGetHostname: (_args, { host }) => ({ hostname: host.name }),
  connectGetCapabilities: (_args, { host }) => ({ capabilities: capabilitiesXml(host.virtTypes) }),
  connectGetDomainCapabilities: ({ virttype, arch, machine, flags }, { host }) => {
    if (flags !== 0) {
      throw apiInvalidArgument(ERROR_DOMAIN.qemu, `unsupported flags (0x${flags.toString(16)})`);
    }
    const virtType = virttype ?? host.virtTypes[0] ?? 'qemu';
    if (!host.virtTypes.includes(virtType)) {
      throw invalidArgument(
        ERROR_DOMAIN.qemu,
        `the accel '${virtType}' is not supported by '/usr/bin/qemu-system-x86_64' on this host`,
      );
    }
    return { capabilities: domainCapabilitiesXml(virtType, arch ?? 'x86_64', machine ?? 'q35') };
  },
  nodeGetInfo: (_args, { host }) => ({
    model: 'x86_64',
    memory: host.memoryBytes / 1024n,
    cpus: 8,
    mhz: 2400,
    nodes: 1,
    sockets: 1,
    cores: 8,
    threads: 1,
  }),
  nodeGetFreeMemory: (_args, { host }) => ({ freeMem: host.freeMemoryBytes }),
};
