import { describe, expect, it } from 'vitest';
import { buildXml, childrenOf, elementAt, parseXml, textAt, XmlError } from '../../../lib/kvm/xml-tree.ts';

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

  it.each([
    ['nested without end', `${'<a>'.repeat(5_000)}${'</a>'.repeat(5_000)}`],
    ['an element that would set a prototype', '<domain><metadata><__proto__/></metadata></domain>'],
    ['an attribute that would set a prototype', '<domain __proto__="x"/>'],
  ])('refuses %s as it refuses any other text, so that a listing skips the domain', (_, text) => {
    expect(() => parseXml(text)).toThrow(XmlError);
  });
});

describe('buildXml', () => {
  it('writes what parseXml reads back, with every character that XML gives a meaning', () => {
    const value = ` <&>"' `;

    const node = parseXml(
      buildXml({ tag: 'a', attributes: { x: value }, children: [{ tag: 'b', text: value }] }),
    );

    expect(node.attributes).toEqual({ x: value });
    expect(textAt(node, 'b')).toBe(value);
  });

  it('leaves out undefined attributes and null children', () => {
    expect(buildXml({ tag: 'a', attributes: { x: undefined, y: 0 }, children: [null, { tag: 'b' }] })).toBe(
      '<a y="0"><b/></a>',
    );
  });
});
