/**
 * The first field of a known_hosts line: which hosts it speaks for (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"). Either
 * one hashed name or a list of patterns with `*`, `?` and `!`. The port is part of the name that is matched.
 */
import { createHmac } from 'node:crypto';

export type HostPatterns =
  | { readonly kind: 'hashed'; readonly salt: Buffer; readonly hash: Buffer }
  | {
      readonly kind: 'list';
      readonly patterns: readonly { readonly negated: boolean; readonly glob: string }[];
    };

const SHA1_BYTES = 20;

/**
 * The name a host goes by in known_hosts: bare on port 22, `[host]:port` on any other, in lower case. An entry
 * without a port says nothing about another port: two daemons on one address have two keys.
 */
export function hostLookupName(address: string, port: number): string {
  const host = address.toLowerCase();
  return port === 22 ? host : `[${host}]:${port}`;
}

/** @returns the patterns, or a string that says what is wrong with them. */
export function parseHostPatterns(field: string): HostPatterns | string {
  if (field.startsWith('|')) return parseHashed(field);
  const patterns = field.split(',').map((text) => {
    const negated = text.startsWith('!');
    return { negated, glob: (negated ? text.slice(1) : text).toLowerCase() };
  });
  if (patterns.some(({ glob }) => glob === '')) return 'an empty host pattern';
  return { kind: 'list', patterns };
}

/** A negated pattern that matches rules the whole line out, wherever it stands in the list. */
export function matchesHost(patterns: HostPatterns, lookupName: string): boolean {
  if (patterns.kind === 'hashed') {
    return createHmac('sha1', patterns.salt).update(lookupName).digest().equals(patterns.hash);
  }
  const hits = patterns.patterns.filter(({ glob }) => matchesGlob(glob, lookupName));
  return hits.length > 0 && hits.every(({ negated }) => !negated);
}

function parseHashed(field: string): HostPatterns | string {
  const [empty, version, salt64, hash64, ...rest] = field.split('|');
  if (empty !== '' || version !== '1' || !salt64 || !hash64 || rest.length > 0) {
    return 'a hashed host that is not |1|salt|hash';
  }
  const salt = Buffer.from(salt64, 'base64');
  const hash = Buffer.from(hash64, 'base64');
  if (salt.length !== SHA1_BYTES || hash.length !== SHA1_BYTES) {
    return `a hashed host whose salt and hash are not ${SHA1_BYTES} bytes each`;
  }
  return { kind: 'hashed', salt, hash };
}

/** Linear in the name for each `*`: a translated regular expression could be made to backtrack exponentially. */
function matchesGlob(glob: string, name: string): boolean {
  let g = 0;
  let n = 0;
  let star = -1;
  let resume = 0;
  while (n < name.length) {
    if (glob[g] === '*') {
      star = g++;
      resume = n;
    } else if (g < glob.length && (glob[g] === '?' || glob[g] === name[n])) {
      g++;
      n++;
    } else if (star >= 0) {
      g = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}
