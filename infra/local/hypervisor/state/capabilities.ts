/** The parts of libvirt's capability documents that say what this host can run. */
import { formatLibvirtXml } from './xml-text.ts';
import { element } from './xml-tree.ts';

const EMULATOR = '/usr/bin/qemu-system-x86_64';
const MACHINE = 'pc-q35-7.2';

export const capabilitiesXml = (virtTypes: readonly string[]): string =>
  formatLibvirtXml(
    element(
      'capabilities',
      {},
      element('host', {}, element('cpu', {}, element('arch', {}, 'x86_64'))),
      element(
        'guest',
        {},
        element('os_type', {}, 'hvm'),
        element(
          'arch',
          { name: 'x86_64' },
          element('wordsize', {}, '64'),
          element('emulator', {}, EMULATOR),
          element('machine', { maxCpus: '288' }, MACHINE),
          element('machine', { canonical: MACHINE, maxCpus: '288' }, 'q35'),
          ...virtTypes.map((type) => element('domain', { type })),
        ),
      ),
    ),
  );

export const domainCapabilitiesXml = (virtType: string, arch: string, machine: string): string =>
  formatLibvirtXml(
    element(
      'domainCapabilities',
      {},
      element('path', {}, EMULATOR),
      element('domain', {}, virtType),
      element('machine', {}, machine === 'q35' ? MACHINE : machine),
      element('arch', {}, arch),
      element('vcpu', { max: '288' }),
      element(
        'cpu',
        {},
        // Passing the host's CPU through needs the host's CPU: emulation cannot.
        element('mode', { name: 'host-passthrough', supported: virtType === 'kvm' ? 'yes' : 'no' }),
        element('mode', { name: 'maximum', supported: 'yes' }),
      ),
    ),
  );
