/**
 * XML as a small element tree over fast-xml-parser. The library's object form turns one child into an object, many
 * into an array, and text into numbers (LV-21); its order-preserving form does none of that, and this wraps it so
 * that the rest of the provider never sees its shape. Namespaces are matched by URI: libvirt keeps a caller's
 * metadata but is free to choose the prefix.
 */
import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser';

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

const ATTRIBUTES = ':@';
const TEXT = '#text';

type OrderedNode = Record<string, unknown>;

const parser = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  parseTagValue: false,
  parseAttributeValue: false,
  trimValues: false,
  ignoreDeclaration: true,
  ignorePiTags: true,
  // libxml2 writes what is not ASCII as numeric references; entities of a document type are never wanted here.
  processEntities: true,
  htmlEntities: true,
});

const builder = new XMLBuilder({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  suppressEmptyNode: true,
  suppressBooleanAttributes: false,
  processEntities: true,
});

/** @throws XmlError when the text is not one well-formed element. */
export function parseXml(text: string): XmlElement {
  const valid = XMLValidator.validate(text);
  if (valid !== true) throw new XmlError(`line ${valid.err.line}: ${valid.err.msg}`);
  const roots = toElements(parseOrdered(text), new Map());
  const [root] = roots;
  if (root === undefined || roots.length > 1) throw new XmlError('one root element is wanted');
  return root;
}

/** The library refuses with bare errors what it takes for an attack: deep nesting, `__proto__` as a name. */
function parseOrdered(text: string): OrderedNode[] {
  try {
    return parser.parse(text) as OrderedNode[];
  } catch (error) {
    throw new XmlError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** Pure; the same input gives the same text. */
export function buildXml(root: XmlInput): string {
  return builder.build([toOrdered(root)]) as string;
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

function toElements(nodes: readonly OrderedNode[], scope: ReadonlyMap<string, string>): XmlElement[] {
  const elements: XmlElement[] = [];
  for (const node of nodes) {
    const tag = Object.keys(node).find((key) => key !== ATTRIBUTES && key !== TEXT);
    if (tag === undefined || tag.startsWith('?') || tag.startsWith('!')) continue;
    const raw = (node[ATTRIBUTES] ?? {}) as Record<string, string>;
    const inner = declaredIn(raw, scope);
    const content = node[tag] as OrderedNode[];
    const [prefix, name] = tag.includes(':') ? splitAt(tag, ':') : ['', tag];
    elements.push({
      name,
      uri: inner.get(prefix) ?? null,
      attributes: raw,
      children: toElements(content, inner),
      text: content.map((child) => (TEXT in child ? String(child[TEXT]) : '')).join(''),
    });
  }
  return elements;
}

function declaredIn(attributes: Readonly<Record<string, string>>, scope: ReadonlyMap<string, string>) {
  const inner = new Map(scope);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'xmlns') inner.set('', value);
    else if (key.startsWith('xmlns:')) inner.set(key.slice('xmlns:'.length), value);
  }
  return inner;
}

function toOrdered(input: XmlInput): OrderedNode {
  const children: OrderedNode[] = (input.children ?? []).filter((child) => child !== null).map(toOrdered);
  if (input.text !== undefined) children.push({ [TEXT]: String(input.text) });
  const attributes: Record<string, string> = {};
  for (const [key, value] of Object.entries(input.attributes ?? {})) {
    if (value !== undefined) attributes[key] = String(value);
  }
  return { [input.tag]: children, [ATTRIBUTES]: attributes };
}

function splitAt(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return [text.slice(0, at), text.slice(at + separator.length)];
}
