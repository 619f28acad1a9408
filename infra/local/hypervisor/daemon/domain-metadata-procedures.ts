/**
 * Reading and writing a domain's metadata. Most of it is which of the two definitions is meant: LIVE and CONFIG together
 * may be written on a running domain only, and never read.
 */
import {
  DOMAIN_AFFECT_CONFIG,
  DOMAIN_AFFECT_LIVE,
  DOMAIN_METADATA_DESCRIPTION,
  DOMAIN_METADATA_ELEMENT,
  DOMAIN_METADATA_TITLE,
} from '../../../../lib/libvirt/constants.ts';
import type { DomainDefinition } from '../state/domain-definition.ts';
import { getMetadata, removeMetadata, setMetadata } from '../state/domain-metadata.ts';
import type { Domain } from '../state/domain-store.ts';
import { parseXml, XmlSyntaxError } from '../state/xml-tree.ts';
import {
  apiInvalidArgument,
  checkFlags,
  ERROR_DOMAIN,
  invalidArgument,
  noMetadata,
  operationInvalid,
  xmlSyntaxError,
} from './daemon-error.ts';
import { domainOf } from './domain-procedures.ts';
import type { Handlers } from './handler.ts';

const BOTH = DOMAIN_AFFECT_LIVE | DOMAIN_AFFECT_CONFIG;

export const domainMetadataProcedures: Handlers<'domainSetMetadata' | 'domainGetMetadata'> = {
  domainSetMetadata: ({ dom, type, metadata, key, uri, flags }, { host }) => {
    checkFlags(flags, BOTH, 'qemuDomainSetMetadata', ERROR_DOMAIN.qemu);
    const change = changeOf({ type, metadata, key, uri });
    const domain = domainOf(host, dom);
    const affected = affects(domain, flags);
    // Both are made before either is kept: a bad element changes nothing.
    const live = affected.live && domain.run && change(domain.run.definition);
    const config = affected.config && domain.config && change(domain.config);
    if (domain.run && live) {
      domain.run.definition = live;
    }
    if (config) {
      domain.config = config;
    }
  },
  domainGetMetadata: ({ dom, type, uri, flags }, { host }) => {
    if ((flags & BOTH) === BOTH) {
      throw apiInvalidArgument(
        ERROR_DOMAIN.domain,
        "Flags 'VIR_DOMAIN_AFFECT_LIVE' and 'VIR_DOMAIN_AFFECT_CONFIG' are mutually exclusive",
      );
    }
    if (type === DOMAIN_METADATA_ELEMENT && uri === null) {
      throw apiInvalidArgument(ERROR_DOMAIN.domain, 'uri in virDomainGetMetadata must not be NULL');
    }
    checkFlags(flags, BOTH, 'qemuDomainGetMetadata', ERROR_DOMAIN.qemu);
    const domain = domainOf(host, dom);
    const definition = affects(domain, flags).live ? domain.run?.definition : domain.config;
    const found = definition && read(definition, type, uri ?? '');
    if (found === undefined) {
      throw noMetadata();
    }
    return { metadata: found };
  },
};

/** CURRENT is the live definition of a running domain, else the stored one. */
function affects(domain: Domain, flags: number): { live: boolean; config: boolean } {
  const live = (flags & DOMAIN_AFFECT_LIVE) !== 0;
  const config = (flags & DOMAIN_AFFECT_CONFIG) !== 0;
  if (live && !domain.run) {
    throw operationInvalid(ERROR_DOMAIN.domain, 'domain is not running');
  }
  if (config && !domain.config) {
    throw operationInvalid(ERROR_DOMAIN.domain, 'transient domains do not have any persistent config');
  }
  const isCurrent = !live && !config;
  return {
    live: live || (isCurrent && domain.run !== undefined),
    config: config || (isCurrent && domain.run === undefined),
  };
}

function changeOf(request: {
  type: number;
  metadata: string | null;
  key: string | null;
  uri: string | null;
}): (definition: DomainDefinition) => DomainDefinition {
  const { type, metadata, key, uri } = request;
  switch (type) {
    case DOMAIN_METADATA_DESCRIPTION:
      return (definition) => ({ ...definition, description: metadata || undefined });
    case DOMAIN_METADATA_TITLE:
      if (metadata?.includes('\n')) {
        throw apiInvalidArgument(ERROR_DOMAIN.domain, "metadata title can't contain newlines");
      }
      return (definition) => ({ ...definition, title: metadata || undefined });
    case DOMAIN_METADATA_ELEMENT:
      return elementChange(metadata, key, uri);
    default:
      throw unknownType(type);
  }
}

function elementChange(
  metadata: string | null,
  key: string | null,
  uri: string | null,
): (definition: DomainDefinition) => DomainDefinition {
  if (uri === null) {
    throw apiInvalidArgument(ERROR_DOMAIN.domain, 'uri in virDomainSetMetadata must not be NULL');
  }
  if (metadata === null) {
    return (definition) => ({ ...definition, metadata: removeMetadata(definition.metadata, uri) });
  }
  if (key === null) {
    throw apiInvalidArgument(ERROR_DOMAIN.domain, 'key in virDomainSetMetadata must not be NULL');
  }
  return (definition) => ({
    ...definition,
    metadata: setMetadata(definition.metadata, uri, key, parseElement(metadata)),
  });
}

function parseElement(metadata: string) {
  try {
    return parseXml(metadata);
  } catch (error) {
    throw error instanceof XmlSyntaxError
      ? xmlSyntaxError(ERROR_DOMAIN.domain, error.message.replace('(xml)', '(metadata_xml)'))
      : error;
  }
}

function read(definition: DomainDefinition, type: number, uri: string): string | undefined {
  switch (type) {
    case DOMAIN_METADATA_DESCRIPTION:
      return definition.description;
    case DOMAIN_METADATA_TITLE:
      return definition.title;
    case DOMAIN_METADATA_ELEMENT:
      return getMetadata(definition.metadata, uri);
    default:
      throw unknownType(type);
  }
}

const unknownType = (type: number): Error =>
  invalidArgument(ERROR_DOMAIN.domain, `unknown metadata type '${type}'`);
