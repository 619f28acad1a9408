/**
 * Application metadata of a domain: at most one element per namespace URI, kept as it was written. The prefix is the
 * writer's business, the URI decides, as in libvirt (virDomainDefSetMetadata, virDomainDefGetMetadata).
 */
import { ERROR_DOMAIN, internalError } from '../daemon/daemon-error.ts';
import { formatLibxml } from './xml-text.ts';
import { isBlank, isElement, type XmlElement, type XmlNode } from './xml-tree.ts';

export interface MetadataElement {
  readonly uri: string;
  readonly element: XmlElement;
}

/** Prefix → URI; the default namespace has the prefix ''. */
type Scope = ReadonlyMap<string, string>;

/**
 * The elements below a domain's `metadata`, as define takes them over: those without a namespace are dropped, and so is
 * the second of two with the same one. `ancestors` are the elements around it, outermost first.
 */
export function readMetadata(metadata: XmlElement, ancestors: readonly XmlElement[]): MetadataElement[] {
  const outer = [...ancestors, metadata].reduce(withDeclarations, new Map<string, string>());
  const found = new Map<string, XmlElement>();
  for (const child of metadata.children.filter(isElement)) {
    const scope = withDeclarations(outer, child);
    const uri = scope.get(prefixOf(child.name));
    if (uri && !found.has(uri)) {
      found.set(uri, withoutIndentation(declared(child, prefixOf(child.name), uri)));
    }
  }
  return [...found].map(([uri, element]) => ({ uri, element }));
}

/**
 * Sets or replaces the element of `uri`. Elements in no namespace get the prefix `key`.
 * @throws DaemonError internalError for a key that is no prefix or already stands for something in the element.
 */
export function setMetadata(
  all: readonly MetadataElement[],
  uri: string,
  key: string,
  element: XmlElement,
): MetadataElement[] {
  if (!/^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(key)) {
    throw internalError(ERROR_DOMAIN.xml, 'failed to validate prefix for a new XML namespace');
  }
  if (element.attributes.has(`xmlns:${key}`)) {
    throw internalError(ERROR_DOMAIN.xml, 'failed to create a new XML namespace');
  }
  const named = declared(prefixed(element, key, new Map()), key, uri);
  const own = withDeclarations(new Map(), named).get(prefixOf(named.name));
  return [...removeMetadata(all, uri), { uri: own ?? uri, element: named }];
}

export const removeMetadata = (all: readonly MetadataElement[], uri: string): MetadataElement[] =>
  all.filter((entry) => entry.uri !== uri);

/** The element of `uri` as text, without its prefix and without the declaration of it; undefined when there is none. */
export function getMetadata(all: readonly MetadataElement[], uri: string): string | undefined {
  const found = all.find((entry) => entry.uri === uri);
  if (!found) {
    return undefined;
  }
  const bare = unprefixed(found.element, uri, new Map());
  const declaration = declarationName(prefixOf(found.element.name));
  return formatLibxml({
    ...bare,
    attributes: new Map([...bare.attributes].filter(([name]) => name !== declaration)),
  });
}

const prefixOf = (name: string): string => (name.includes(':') ? name.slice(0, name.indexOf(':')) : '');
const declarationName = (prefix: string): string => (prefix === '' ? 'xmlns' : `xmlns:${prefix}`);

const withDeclarations = (scope: Scope, at: XmlElement): Scope =>
  new Map([
    ...scope,
    ...[...at.attributes]
      .filter(([name]) => name === 'xmlns' || name.startsWith('xmlns:'))
      .map(([name, uri]): [string, string] => [name === 'xmlns' ? '' : name.slice('xmlns:'.length), uri]),
  ]);

const declared = (at: XmlElement, prefix: string, uri: string): XmlElement =>
  at.attributes.has(declarationName(prefix))
    ? at
    : { ...at, attributes: new Map([...at.attributes, [declarationName(prefix), uri]]) };

function prefixed(at: XmlElement, key: string, outer: Scope): XmlElement {
  const scope = withDeclarations(outer, at);
  return {
    ...at,
    name: scope.get(prefixOf(at.name)) ? at.name : `${key}:${at.name}`,
    children: at.children.map((child) => (isElement(child) ? prefixed(child, key, scope) : child)),
  };
}

function unprefixed(at: XmlElement, uri: string, outer: Scope): XmlElement {
  const scope = withDeclarations(outer, at);
  const bare = (name: string): string =>
    scope.get(prefixOf(name)) === uri ? name.slice(name.indexOf(':') + 1) : name;
  return {
    ...at,
    name: bare(at.name),
    attributes: new Map(
      // The default namespace does not apply to attributes (Namespaces in XML section 6.2).
      [...at.attributes].map(([name, value]) => [name.includes(':') ? bare(name) : name, value]),
    ),
    children: at.children.map((child) => (isElement(child) ? unprefixed(child, uri, scope) : child)),
  };
}

/** libxml2 drops white space between elements when a whole domain is parsed, but not from metadata set on its own. */
function withoutIndentation(at: XmlElement): XmlElement {
  const isMixed = at.children.some((child) => child.kind === 'text' && !isBlank(child));
  const keep = (child: XmlNode): boolean => isMixed || at.children.length === 1 || !isBlank(child);
  return {
    ...at,
    children: at.children.filter(keep).map((child) => (isElement(child) ? withoutIndentation(child) : child)),
  };
}
