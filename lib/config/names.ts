/**
 * Which strings may name things: each rule is the one of the system that will read the name, so that a bad one is
 * refused here and not by a host at the first create.
 */
import { isIP } from 'node:net';

/** RFC 1123 label, lower case. `_` cannot occur in it, which is what keeps our volume names apart. */
export const DNS_LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export const DNS_LABEL_RULE =
  'must be a DNS label: 1–63 lower-case letters, digits and hyphens, no hyphen at either end';

/** Linux `dev_valid_name`: at most 15 bytes, no slash, colon or white space. */
export const INTERFACE_NAME = /^(?!\.{1,2}$)[!-.0-9;-~]{1,15}$/;

/** libvirt refuses a slash in a pool's name; white space is refused here because it is never meant. */
export const POOL_NAME = /^[!-.0-~]{1,255}$/;

export const USER_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$/;

/** An IP address or a host name. A name whose last label is a number is a mistyped address (RFC 1123, 2.1). */
export function isHostAddress(text: string): boolean {
  if (isIP(text) !== 0) return true;
  if (text.length > 253) return false;
  const labels = text.split('.');
  return (
    labels.every((label) => DNS_LABEL.test(label.toLowerCase())) && !/^[0-9]+$/.test(labels.at(-1) ?? '')
  );
}
