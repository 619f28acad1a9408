/** What one check came to, before it is written into a report: what was found and, if it is a fault, the one remedy. */
import {
  errorCodeName,
  LibvirtAuthError,
  LibvirtError,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from '../../libvirt/errors.ts';
import { XmlError } from '../../libvirt/xml-tree.ts';
import { SshError } from '../../ssh/ssh-error.ts';

export type Finding =
  | { readonly ok: true; readonly found: string }
  | { readonly ok: false; readonly found: string; readonly remedy: string };

export const fine = (found: string): Finding => ({ ok: true, found });

/** @param remedy one thing to do, as an imperative */
export const fault = (found: string, remedy: string): Finding => ({ ok: false, found, remedy });

export function describeFinding(finding: Finding): string {
  return finding.ok ? finding.found : `${finding.found}. To do: ${finding.remedy}`;
}

/** For what a check does not expect itself: the daemon is silent, gone, or refuses. */
export function findingOfError(error: unknown): Finding {
  if (error instanceof LibvirtTimeoutError) {
    return fault(error.message, 'restart the daemon on the host (systemctl restart libvirtd)');
  }
  if (error instanceof LibvirtTransportError) {
    const why = error.cause instanceof SshError ? error.cause.message : error.message;
    return fault(why, 'look why the daemon ended the connection (journalctl -u libvirtd on the host)');
  }
  if (error instanceof LibvirtError) {
    return fault(
      `libvirt refuses ${error.procedure}: ${error.message} (${errorCodeName(error.code)})`,
      'look for it in the daemon’s log (journalctl -u libvirtd on the host)',
    );
  }
  if (error instanceof XmlError) {
    return fault(`the daemon’s answer cannot be read: ${error.message}`, 'update libvirt on the host');
  }
  if (error instanceof LibvirtAuthError || error instanceof SshError) {
    return fault(error.message, 'see docs/hosts.md for what the account needs');
  }
  const text = error instanceof Error ? error.message : String(error);
  return fault(`the check itself failed: ${text}`, 'report it as a defect of kvm-functions');
}
