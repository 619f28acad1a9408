/**
 * XML as a tree that keeps order, comments and every character, which domain metadata needs to come back as it was sent.
 * The text is split into tags by fast-xml-parser; entities are resolved here, because its expansion limits and its
 * silence about unknown entities differ from libxml2, which is what a real libvirt reads XML with.
 */
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import * as z from 'zod';

export interface XmlElement {
  readonly kind: 'element';
  /** With its prefix. */
  readonly name: string;
  /** In the order written, namespace declarations among them. */
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlNode[];
}

export type XmlNode =
  | XmlElement
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'cdata'; readonly text: string }
  | { readonly kind: 'comment'; readonly text: string };

/** The text is not well-formed XML with one root. */
export class XmlSyntaxError extends Error {
  override readonly name = 'XmlSyntaxError';
}

const COMMENT = '#comment';
const CDATA = '#cdata';
const TEXT = '#text';

/** @throws XmlSyntaxError */
export function parseXml(text: string): XmlElement {
  const trimmed = text.trim();
  const verdict = XMLValidator.validate(trimmed, { allowBooleanAttributes: false });
  if (verdict !== true) {
    throw new XmlSyntaxError(`(xml):${verdict.err.line}: ${verdict.err.msg}`);
  }
  if (/<!DOCTYPE/i.test(trimmed)) {
    throw new XmlSyntaxError('(xml):1: a document type is not accepted');
  }
  const roots = readNodes(createParser().parse(trimmed)).filter((node) => node.kind === 'element');
  const [root, ...extra] = roots;
  if (!root || extra.length > 0) {
    throw new XmlSyntaxError(root ? '(xml):1: Extra content at the end of the document' : '(xml):1: no root');
  }
  return root;
}

export const element = (
  name: string,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (XmlNode | string)[]
): XmlElement => ({
  kind: 'element',
  name,
  attributes: new Map(Object.entries(attributes)),
  children: children.map((child) => (typeof child === 'string' ? { kind: 'text', text: child } : child)),
});

export const isElement = (node: XmlNode): node is XmlElement => node.kind === 'element';

export const childElements = (parent: XmlElement, name?: string): XmlElement[] =>
  parent.children.filter(isElement).filter((child) => name === undefined || child.name === name);

/** The first element at a path of names, like `os/type`. */
export function find(parent: XmlElement | undefined, path: string): XmlElement | undefined {
  let at = parent;
  for (const name of path.split('/')) {
    at = at && childElements(at, name)[0];
  }
  return at;
}

export const attribute = (at: XmlElement | undefined, name: string): string | undefined =>
  at?.attributes.get(name);

/** All text in the element, untrimmed; undefined when there is no element. */
export const textOf = (at: XmlElement | undefined): string | undefined =>
  at?.children
    .map((child) =>
      child.kind === 'element' ? (textOf(child) ?? '') : child.kind === 'comment' ? '' : child.text,
    )
    .join('');

export const isBlank = (node: XmlNode): boolean => node.kind === 'text' && node.text.trim() === '';

const createParser = (): XMLParser =>
  new XMLParser({
    preserveOrder: true,
    ignoreAttributes: false,
    attributeNamePrefix: '',
    parseTagValue: false,
    parseAttributeValue: false,
    trimValues: false,
    processEntities: false,
    commentPropName: COMMENT,
    cdataPropName: CDATA,
    textNodeName: TEXT,
    ignoreDeclaration: true,
    ignorePiTags: true,
  });

/** With preserveOrder a node is `{ name: [nodes], ':@': attributes }`, a text `{ '#text': string }`. */
const rawNode = z.record(z.string(), z.unknown());
const rawNodes = z.array(rawNode);
const rawAttributes = z.record(z.string(), z.string()).optional();
const rawText = z.string();

const readNodes = (raw: unknown): XmlNode[] => rawNodes.parse(raw).flatMap(readNode);

function readNode(raw: z.infer<typeof rawNode>): XmlNode[] {
  const name = Object.keys(raw).find((key) => key !== ':@');
  if (name === undefined) {
    return [];
  }
  switch (name) {
    case TEXT:
      return [{ kind: 'text', text: resolveEntities(rawText.parse(raw[TEXT])) }];
    case COMMENT:
      return [{ kind: 'comment', text: innerText(raw[COMMENT]) }];
    case CDATA:
      return [{ kind: 'cdata', text: innerText(raw[CDATA]) }];
    default: {
      const attributes = Object.entries(rawAttributes.parse(raw[':@']) ?? {});
      return [
        {
          kind: 'element',
          name,
          // A line break or tab in an attribute is a space (XML 1.0 section 3.3.3); one written as `&#10;` stays.
          attributes: new Map(
            attributes.map(([key, value]) => [key, resolveEntities(value.replace(/[\t\r\n]/g, ' '))]),
          ),
          children: readNodes(raw[name]),
        },
      ];
    }
  }
}

const innerText = (raw: unknown): string =>
  rawNodes
    .parse(raw)
    .map((node) => rawText.parse(node[TEXT]))
    .join('');

const NAMED: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

const resolveEntities = (text: string): string =>
  text.replace(/&(#x[0-9a-f]+|#\d+|[\w.-]+);/gi, (_whole, name: string) => {
    const resolved = name.startsWith('#') ? character(name.slice(1)) : NAMED[name];
    if (resolved === undefined) {
      throw new XmlSyntaxError(`(xml):1: Entity '${name}' not defined`);
    }
    return resolved;
  });

function character(number: string): string | undefined {
  const code = /^x/i.test(number) ? Number.parseInt(number.slice(1), 16) : Number.parseInt(number, 10);
  return code > 0 && code <= 0x10_ffff ? String.fromCodePoint(code) : undefined;
}
