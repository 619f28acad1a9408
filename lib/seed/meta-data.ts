/**
 * NoCloud's meta-data: who the guest is, and the keys that open it. Keys go here and not into the user's document,
 * which stays as it was written; cloud-init gives them to the image's default user.
 */
import { renderYaml } from './yaml-flow.ts';

export interface MetaData {
  /** A change of it makes cloud-init treat the guest as a new machine; it must survive a reboot. */
  readonly instanceId: string;
  readonly hostname: string;
  readonly sshAuthorizedKeys: readonly string[];
}

/** Both fields are always there: cloud-init skips a seed without meta-data. */
export function renderMetaData({ instanceId, hostname, sshAuthorizedKeys }: MetaData): string {
  const lines = [`instance-id: ${renderYaml(instanceId)}`, `local-hostname: ${renderYaml(hostname)}`];
  if (sshAuthorizedKeys.length > 0) {
    lines.push('public-keys:', ...sshAuthorizedKeys.map((key) => `- ${renderYaml(key.trim())}`));
  }
  return `${lines.join('\n')}\n`;
}
