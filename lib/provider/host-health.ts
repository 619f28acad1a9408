/**
 * What an operator is told about a host: one finding for each thing a VM needs there. A host that is broken is an
 * answer like any other, not an error.
 */

/** In the order in which they depend on one another; these names are part of the API. */
export const HOST_CHECKS = [
  'tcp',
  'ssh-handshake',
  'host-key',
  'authentication',
  'transport',
  'libvirt-session',
  'libvirt-version',
  'virt-type',
  'pool',
  'bridge',
  'clock',
] as const;
export type HostCheckName = (typeof HOST_CHECKS)[number];

export interface HostCheck {
  readonly name: HostCheckName;
  readonly ok: boolean;
  /** What was found and, when it is not ok, the one thing to do about it. Begins with `not checked:` when nothing was. */
  readonly detail: string;
  /** How long it took; 0 for what was not checked. */
  readonly ms: number;
}

export interface HostHealth {
  readonly host: string;
  /** Every check is. */
  readonly ok: boolean;
  /** All of HOST_CHECKS, in that order. */
  readonly checks: readonly HostCheck[];
}

export interface HostExaminer {
  /**
   * Looks at everything anew, on a session of its own that is closed when it returns. Leaves the host as it was.
   * May be repeated, also by several at once.
   * @throws ProviderError `not-found` for a host that is not configured, `timeout` when the caller's time is used up.
   */
  examineHost(host: string): Promise<HostHealth>;
}
