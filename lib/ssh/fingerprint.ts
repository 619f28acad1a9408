/** The name people know a public key by: what `ssh-keygen -l` prints, so that it can be compared by eye. */
import { createHash } from 'node:crypto';

/** @param key the public key in SSH wire format. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}
