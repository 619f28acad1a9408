/** What every definition that a client sends starts with: one root of the right name, and sizes with units. */
import { ERROR_DOMAIN, invalidArgument, xmlError, xmlSyntaxError } from '../daemon/daemon-error.ts';
import { attribute, parseXml, textOf, type XmlElement, XmlSyntaxError } from './xml-tree.ts';

const UNITS: Readonly<Record<string, bigint>> = {
  b: 1n,
  bytes: 1n,
  k: 1024n,
  KiB: 1024n,
  KB: 1000n,
  M: 1024n ** 2n,
  MiB: 1024n ** 2n,
  MB: 1000n ** 2n,
  G: 1024n ** 3n,
  GiB: 1024n ** 3n,
  GB: 1000n ** 3n,
  T: 1024n ** 4n,
  TiB: 1024n ** 4n,
  TB: 1000n ** 4n,
  PiB: 1024n ** 5n,
};

/** Text of a size element with its `unit` in bytes, rounded up by nobody. @throws DaemonError invalidArg for a unit. */
export function bytesOf(size: XmlElement, defaultUnit: string): bigint | undefined {
  const text = textOf(size)?.trim() ?? '';
  const unit = attribute(size, 'unit') ?? defaultUnit;
  const factor = UNITS[unit];
  if (factor === undefined) {
    throw invalidArgument(ERROR_DOMAIN.none, `unknown suffix '${unit}'`);
  }
  return /^\d+$/.test(text) ? BigInt(text) * factor : undefined;
}

/** @throws DaemonError xmlDetail when it is no XML, xmlError when its root is another element. */
export function parseRoot(
  xml: string,
  expected: { readonly root: string; readonly source: string; readonly domain: number },
): XmlElement {
  let root: XmlElement;
  try {
    root = parseXml(xml);
  } catch (error) {
    throw error instanceof XmlSyntaxError
      ? xmlSyntaxError(expected.domain, error.message.replace('(xml)', expected.source))
      : error;
  }
  if (root.name !== expected.root) {
    throw xmlError(ERROR_DOMAIN.xml, `expecting root element of '${expected.root}', not '${root.name}'`);
  }
  return root;
}
