/**
 * Reads a known_hosts file. Pure: what a line says, not whether a host is trusted (host-trust.ts). A line that cannot
 * be read is reported with its number instead of being skipped in silence, since it may be the `@revoked` one.
 */
import ssh2 from 'ssh2';
import { isHostKeyType } from './host-key-algorithms.ts';
import { type HostPatterns, parseHostPatterns } from './host-patterns.ts';

export interface KnownHostEntry {
  /** Line in the file, from 1. */
  readonly line: number;
  readonly marker: 'revoked' | 'cert-authority' | null;
  readonly hosts: HostPatterns;
  /** As written: `ssh-ed25519`, `ssh-rsa`, … also types that we cannot use. */
  readonly type: string;
  /** The public key in SSH wire format (RFC 4253 section 6.6). */
  readonly key: Buffer;
}

export interface KnownHostsFault {
  readonly line: number;
  readonly detail: string;
}

export interface KnownHosts {
  readonly entries: readonly KnownHostEntry[];
  /** Lines that say nothing usable. The other lines hold; whoever loads configuration should refuse them. */
  readonly faults: readonly KnownHostsFault[];
}

const MARKERS = { '@revoked': 'revoked', '@cert-authority': 'cert-authority' } as const;

/** Reads LF and CRLF, a byte order mark, comments and blank lines. Never throws. */
export function parseKnownHosts(text: string): KnownHosts {
  const entries: KnownHostEntry[] = [];
  const faults: KnownHostsFault[] = [];
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  lines.forEach((raw, index) => {
    const content = raw.trim();
    if (content === '' || content.startsWith('#')) return;
    const parsed = parseLine(content, index + 1);
    if (typeof parsed === 'string') faults.push({ line: index + 1, detail: parsed });
    else entries.push(parsed);
  });
  return { entries, faults };
}

function parseLine(content: string, line: number): KnownHostEntry | string {
  const fields = content.split(/[ \t]+/);
  let marker: KnownHostEntry['marker'] = null;
  if (fields[0]?.startsWith('@')) {
    const word = fields.shift();
    if (word !== '@revoked' && word !== '@cert-authority') return 'an unknown marker';
    marker = MARKERS[word];
  }
  const [hostField, type, key64] = fields;
  if (!hostField || !type || !key64) return 'fewer than three fields: hosts, key type and key';
  const hosts = parseHostPatterns(hostField);
  if (typeof hosts === 'string') return hosts;
  const key = decodeKey(type, key64);
  return typeof key === 'string' ? key : { line, marker, hosts, type, key };
}

/** The key's own type must be the one written before it: a mismatch is a damaged line, and would never match. */
function decodeKey(type: string, key64: string): Buffer | string {
  if (key64.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(key64)) return 'a key that is not base64';
  const key = Buffer.from(key64, 'base64');
  if (embeddedType(key) !== type) return `a key that is not of the type written before it (${type})`;
  if (isHostKeyType(type) && ssh2.utils.parseKey(`${type} ${key64}`) instanceof Error) return 'a damaged key';
  return key;
}

function embeddedType(key: Buffer): string | null {
  if (key.length < 4) return null;
  const length = key.readUInt32BE(0);
  return length <= key.length - 4 ? key.toString('latin1', 4, 4 + length) : null;
}
