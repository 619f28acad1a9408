/**
 * XML trees as text, in the two styles that stand side by side in what libvirt prints: its own (single quotes) and that
 * of libxml2 for metadata (double quotes, and an element with text in it is never re-indented).
 */
import { isBlank, isElement, type XmlElement, type XmlNode } from './xml-tree.ts';

/** A document in libvirt's style, ending in a line break. Children of `metadata` are printed in libxml2's style. */
export const formatLibvirtXml = (root: XmlElement): string => formatOwn(root, '');

/** One element in libxml2's style, without a line break at its end. */
export const formatLibxml = (root: XmlElement, indent = ''): string => formatForeign(root, indent, true);

function formatOwn(at: XmlElement, indent: string): string {
  const open = `${indent}<${at.name}${attributes(at, (value) => `'${escapeOwn(value)}'`)}`;
  const children = at.children.filter((child) => child.kind !== 'comment' && !isBlank(child));
  if (children.length === 0) {
    return `${open}/>\n`;
  }
  if (!children.some(isElement)) {
    return `${open}>${children.map((child) => escapeOwn(plainText(child))).join('')}</${at.name}>\n`;
  }
  const inner = children
    .filter(isElement)
    .map((child) =>
      at.name === 'metadata'
        ? `${indent}  ${formatForeign(child, `${indent}  `, true)}\n`
        : formatOwn(child, `${indent}  `),
    );
  return `${open}>\n${inner.join('')}${indent}</${at.name}>\n`;
}

const plainText = (node: XmlNode): string => (node.kind === 'element' ? '' : node.text);

function formatForeign(at: XmlElement, indent: string, indented: boolean): string {
  const open = `<${at.name}${attributes(at, (value) => `"${escapeAttribute(value)}"`)}`;
  if (at.children.length === 0) {
    return `${open}/>`;
  }
  const isIndented =
    indented && !at.children.some((child) => child.kind === 'text' || child.kind === 'cdata');
  const gap = isIndented ? `\n${indent}  ` : '';
  const inner = at.children.map((child) => gap + formatForeignNode(child, `${indent}  `, isIndented));
  return `${open}>${inner.join('')}${isIndented ? `\n${indent}` : ''}</${at.name}>`;
}

function formatForeignNode(node: XmlNode, indent: string, indented: boolean): string {
  switch (node.kind) {
    case 'element':
      return formatForeign(node, indent, indented);
    case 'text':
      return escapeText(node.text);
    case 'cdata':
      return `<![CDATA[${node.text}]]>`;
    case 'comment':
      return `<!--${node.text}-->`;
  }
}

/** Namespace declarations come first, as libxml2 keeps them apart from attributes. */
function attributes(at: XmlElement, quote: (value: string) => string): string {
  const all = [...at.attributes];
  return [...all.filter(isDeclaration), ...all.filter((entry) => !isDeclaration(entry))]
    .map(([name, value]) => ` ${name}=${quote(value)}`)
    .join('');
}

const isDeclaration = ([name]: readonly [string, string]): boolean => /^xmlns(:|$)/.test(name);

const REFERENCES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
  '\n': '&#10;',
  '\r': '&#13;',
  '\t': '&#9;',
};
const refer = (character: string): string => REFERENCES[character] ?? character;

const escapeOwn = (text: string): string => text.replace(/[&<>"']/g, refer);
const escapeText = (text: string): string => text.replace(/[&<>\r]/g, refer);
const escapeAttribute = (text: string): string => text.replace(/[&<>"\n\r\t]/g, refer);
