/**
 * Which host key algorithms to offer, so that the server presents a key that is on file. Offering the library's whole
 * list makes the server pick its favourite type, and a trusted host is refused because another type is on file.
 */
import type { ServerHostKeyAlgorithm } from 'ssh2';

/**
 * By key type, preferred first. An `ssh-rsa` key signs with SHA-2 (RFC 8332): the key type keeps its name and only the
 * signature changes. Its SHA-1 form and DSA are not offered: current servers have neither.
 */
const ALGORITHMS = {
  'ssh-ed25519': ['ssh-ed25519'],
  'ecdsa-sha2-nistp256': ['ecdsa-sha2-nistp256'],
  'ecdsa-sha2-nistp384': ['ecdsa-sha2-nistp384'],
  'ecdsa-sha2-nistp521': ['ecdsa-sha2-nistp521'],
  'ssh-rsa': ['rsa-sha2-512', 'rsa-sha2-256'],
} as const satisfies Record<string, readonly ServerHostKeyAlgorithm[]>;

export const HOST_KEY_TYPES: readonly string[] = Object.keys(ALGORITHMS);

/** True for a key type that a host can be verified by. */
export function isHostKeyType(type: string): boolean {
  return HOST_KEY_TYPES.includes(type);
}

/** The algorithms for these key types, in order of preference; empty when none of them is usable. */
export function hostKeyAlgorithms(types: readonly string[]): ServerHostKeyAlgorithm[] {
  return Object.entries(ALGORITHMS).flatMap(([type, algorithms]) => (types.includes(type) ? algorithms : []));
}
