/**
 * XML as a small element tree: children always in an array, values always strings (LV-21), namespaces by URI, since
 * libvirt keeps a caller's metadata but is free to choose the prefix. Read by saxes, which refuses whatever is not
 * well-formed; a list of a thousand domains reads four megabytes of it.
 */
import { SaxesParser, type SaxesTagNS } from 'saxes';

export interface XmlElement {
  /** Local name, without prefix. */
  readonly name: string;
  /** Namespace URI, null outside any namespace. */
  readonly uri: string | null;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly XmlElement[];
  /** The element's own text, joined and untrimmed. */
  readonly text: string;
}

/** Attributes that are undefined are left out; a child that is null is left out. */
export interface XmlInput {
  readonly tag: string;
  readonly attributes?: Readonly<Record<string, string | number | undefined>>;
  readonly children?: readonly (XmlInput | null)[];
  readonly text?: string | number;
}

export class XmlError extends Error {
  override readonly name = 'XmlError';
}

/** Whoever can define domains can nest elements: a tree of this depth is none of libvirt's. */
const MAX_DEPTH = 256;

/** @throws XmlError when the text is not one well-formed element. */
export function parseXml(text: string): XmlElement {
  const document = new OpenElement(null);
  const open = [document];
  const parser = new SaxesParser({ xmlns: true });
  const add = (more: string): void => {
    const innermost = open.at(-1);
    if (innermost !== undefined) innermost.text += more;
  };
  parser.on('error', (error) => {
    throw new XmlError(error.message, { cause: error });
  });
  parser.on('opentag', (tag) => {
    if (open.length > MAX_DEPTH) throw new XmlError(`elements are nested deeper than ${MAX_DEPTH}`);
    const element = new OpenElement(tag);
    open.at(-1)?.children.push(element);
    open.push(element);
  });
  parser.on('closetag', () => {
    open.pop();
  });
  parser.on('text', add);
  parser.on('cdata', add);
  parser.write(text).close();
  const [root] = document.children;
  if (root === undefined) throw new XmlError('one root element is wanted');
  return root;
}

/** Pure; the same input gives the same text. */
export function buildXml({ tag, attributes = {}, children = [], text = '' }: XmlInput): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${escapeText(`${value}`)}"`)
    .join('');
  const content =
    children.map((child) => (child === null ? '' : buildXml(child))).join('') + escapeText(`${text}`);
  return content === '' ? `<${tag}${written}/>` : `<${tag}${written}>${content}</${tag}>`;
}

export function childrenOf(element: XmlElement, name: string): readonly XmlElement[] {
  return element.children.filter((child) => child.name === name);
}

/** The first element at a path of child names, or null. */
export function elementAt(element: XmlElement, ...path: readonly string[]): XmlElement | null {
  let at: XmlElement = element;
  for (const name of path) {
    const next = at.children.find((child) => child.name === name);
    if (next === undefined) return null;
    at = next;
  }
  return at;
}

export function textAt(element: XmlElement, ...path: readonly string[]): string | null {
  return elementAt(element, ...path)?.text ?? null;
}

class OpenElement implements XmlElement {
  readonly name: string;
  readonly uri: string | null;
  readonly attributes: Record<string, string> = Object.create(null);
  readonly children: XmlElement[] = [];
  text = '';

  /** @param tag null for the document, whose only child is the root */
  constructor(tag: SaxesTagNS | null) {
    this.name = tag?.local ?? '';
    this.uri = tag?.uri || null;
    for (const [name, { value }] of Object.entries(tag?.attributes ?? {})) this.attributes[name] = value;
  }
}

const REFERENCES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  // In an attribute, white space that is not written so is read as a blank.
  '\t': '&#9;',
  '\n': '&#10;',
  '\r': '&#13;',
};

const escapeText = (text: string): string =>
  text.replace(/[&<>"\t\n\r]/g, (found) => REFERENCES[found] ?? found);
