/** The host's own network interfaces, as libvirt's udev driver shows them: bridges, and the loopback that all have. */
import { createHash } from 'node:crypto';
import type { HostState } from '../state/host-state.ts';
import { formatLibvirtXml } from '../state/xml-text.ts';
import { element } from '../state/xml-tree.ts';
import { checkFlags, ERROR_DOMAIN, noInterface } from './daemon-error.ts';
import type { Handlers } from './handler.ts';

const LOOPBACK = 'lo';
/** virInterfaceXMLFlags: VIR_INTERFACE_XML_INACTIVE. */
const XML_FLAGS = 1;

export const interfaceProcedures: Handlers<'interfaceLookupByName' | 'interfaceGetXmlDesc'> = {
  interfaceLookupByName: ({ name }, { host }) => {
    requireInterface(host, name);
    return { iface: { name, mac: macOf(name) } };
  },
  interfaceGetXmlDesc: ({ iface: { name }, flags }, { host }) => {
    checkFlags(flags, XML_FLAGS, 'udevInterfaceGetXMLDesc', ERROR_DOMAIN.interface);
    requireInterface(host, name);
    return { xml: formatInterface(name) };
  },
};

function requireInterface(host: HostState, name: string): void {
  if (name !== LOOPBACK && !host.bridges.has(name)) {
    throw noInterface(`couldn't find interface named '${name}'`);
  }
}

function formatInterface(name: string): string {
  return formatLibvirtXml(
    name === LOOPBACK
      ? element(
          'interface',
          { type: 'ethernet', name },
          element('mtu', { size: '65536' }),
          element('link', { state: 'unknown' }),
          element('mac', { address: macOf(name) }),
        )
      : element(
          'interface',
          { type: 'bridge', name },
          element('mtu', { size: '1500' }),
          element('bridge', { stp: 'off', delay: '1500' }),
        ),
  );
}

/** Locally administered, and the same at every question. */
function macOf(name: string): string {
  if (name === LOOPBACK) {
    return '00:00:00:00:00:00';
  }
  const bytes = createHash('sha256').update(name).digest().subarray(0, 5);
  return `02:${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`;
}
