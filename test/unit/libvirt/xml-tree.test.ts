import { describe, expect, it } from 'vitest';
import {
  buildXml,
  childrenOf,
  elementAt,
  parseXml,
  textAt,
  XmlError,
} from '../../../lib/libvirt/xml-tree.ts';

describe('parseXml', () => {
  it('LV-21: keeps text as text and lists as lists, whatever they look like', () => {
    const domain = parseXml('<domain><uid>00123</uid><uid>5e10</uid><uid>0x1F</uid><one> a </one></domain>');

    expect(childrenOf(domain, 'uid').map(({ text }) => text)).toEqual(['00123', '5e10', '0x1F']);
    expect(childrenOf(domain, 'one')).toHaveLength(1);
    expect(textAt(domain, 'one')).toBe(' a ');
  });

  it('LV-21: finds a namespace by its URI under any prefix, inherited ones included', () => {
    const domain = parseXml(
      '<domain xmlns:q="urn:q"><metadata xmlns="urn:default"><x:a xmlns:x="urn:a"/><q:b/><c/></metadata></domain>',
    );

    const metadata = elementAt(domain, 'metadata');

    expect(metadata?.children.map(({ name, uri }) => [name, uri])).toEqual([
      ['a', 'urn:a'],
      ['b', 'urn:q'],
      ['c', 'urn:default'],
    ]);
  });

  it('decodes named and numeric references in text and attributes', () => {
    const node = parseXml('<a x="&#xE9;&lt;&#10;">t&#233;&amp;</a>');

    expect(node).toMatchObject({ text: 'té&', attributes: { x: 'é<\n' } });
  });

  it.each(['', 'text', '<a>', '<a></b>', '<a/><b/>', '<a b=c/>', '<a b/>', '\u0000<a/>'])(
    'refuses %j as not one well-formed element',
    (text) => {
      expect(() => parseXml(text)).toThrow(XmlError);
    },
  );

  it('reads CDATA as the text that it is', () => {
    expect(parseXml('<a>1<![CDATA[<&>]]>2</a>').text).toBe('1<&>2');
  });

  it('finds nothing where a path leads nowhere', () => {
    const domain = parseXml('<domain><name>vm1</name></domain>');

    expect(elementAt(domain, 'devices', 'disk')).toBeNull();
    expect(textAt(domain, 'devices', 'disk')).toBeNull();
  });

  it('refuses what is nested without end, so that a listing skips the domain', () => {
    const nested = (depth: number): string => `${'<a>'.repeat(depth)}${'</a>'.repeat(depth)}`;

    expect(parseXml(nested(256)).name).toBe('a');
    expect(() => parseXml(nested(257))).toThrow(
      expect.objectContaining({ name: 'XmlError', message: 'elements are nested deeper than 256' }),
    );
  });

  it('takes names that mean something to JavaScript for names', () => {
    const node = parseXml('<domain __proto__="x"><__proto__ constructor="y"/></domain>');

    expect(Object.entries(node.attributes)).toEqual([['__proto__', 'x']]);
    expect(node.children.map(({ name, attributes }) => [name, attributes['constructor']])).toEqual([
      ['__proto__', 'y'],
    ]);
    expect(parseXml('<a/>').attributes['constructor']).toBeUndefined();
  });

  it('neither fetches nor expands what a document type names', () => {
    const text = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>';

    expect(() => parseXml(text)).toThrow(XmlError);
  });
});

describe('buildXml', () => {
  it('writes what parseXml reads back, with every character that XML gives a meaning', () => {
    const value = ` <&>"'\t\n\r `;

    const node = parseXml(
      buildXml({ tag: 'a', attributes: { x: value }, children: [{ tag: 'b', text: value }] }),
    );

    expect(node.attributes).toEqual({ x: value });
    expect(textAt(node, 'b')).toBe(value);
  });

  it('leaves out undefined attributes and null children', () => {
    expect(
      buildXml({ tag: 'a', attributes: { x: undefined, y: 0, z: 1 }, children: [null, { tag: 'b' }] }),
    ).toBe('<a y="0" z="1"><b/></a>');
  });
});
