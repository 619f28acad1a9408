/** What the daemon knows about its host: its versions, whether it can run our machines, and their bridge. */
import { ERROR_CODE, LibvirtError } from '../../libvirt/errors.ts';
import { childrenOf, elementAt, parseXml } from '../../libvirt/xml-tree.ts';
import { hasCode } from '../error-classification.ts';
import type { DaemonCalls } from './daemon-calls.ts';
import { type Finding, fault, fine } from './finding.ts';

/** domainInterfaceAddresses came with it, the youngest call that has no replacement. */
const OLDEST_LIBVIRT = 1_002_014n;

export async function checkVersion(daemon: DaemonCalls): Promise<Finding> {
  const [{ libVer }, { hvVer }] = await Promise.all([
    daemon.call('connectGetLibVersion', undefined),
    daemon.call('connectGetVersion', undefined),
  ]);
  const found = `libvirt ${formatVersion(libVer)}, QEMU ${formatVersion(hvVer)}`;
  return libVer >= OLDEST_LIBVIRT
    ? fine(found)
    : fault(found, `update libvirt to ${formatVersion(OLDEST_LIBVIRT)} or newer`);
}

/** As far as the daemon knows: only a start shows whether the processor keeps the promise. */
export async function checkVirtType(daemon: DaemonCalls, virtType: 'kvm' | 'qemu'): Promise<Finding> {
  const machine = `q35 on x86_64 with ${virtType}`;
  let capabilities: string;
  try {
    ({ capabilities } = await daemon.call('connectGetDomainCapabilities', {
      emulatorbin: null,
      arch: 'x86_64',
      machine: 'q35',
      virttype: virtType,
      flags: 0,
    }));
  } catch (error) {
    if (!(error instanceof LibvirtError)) throw error;
    return fault(`no ${machine}: ${error.message}`, virtTypeRemedy(virtType));
  }
  const mode = virtType === 'kvm' ? 'host-passthrough' : 'maximum';
  if (!supportedCpuModes(capabilities).includes(mode)) {
    return fault(`${machine} has no CPU mode ${mode}`, virtTypeRemedy(virtType));
  }
  return fine(`${machine}, CPU mode ${mode}`);
}

export async function checkBridge(daemon: DaemonCalls, bridge: string): Promise<Finding> {
  try {
    const { iface } = await daemon.call('interfaceLookupByName', { name: bridge });
    const { xml } = await daemon.call('interfaceGetXmlDesc', { iface, flags: 0 });
    const type = parseXml(xml).attributes['type'] ?? 'unknown';
    if (type === 'bridge') return fine(`${bridge} is there (${iface.mac})`);
    return fault(
      `${bridge} is of type ${type}, not a bridge`,
      'configure the name of a Linux bridge for this host',
    );
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noInterface)) {
      return fault(
        `the host has no interface ${bridge}`,
        `make the bridge on the host, for good (at once: ip link add ${bridge} type bridge && ip link set ${bridge} up)`,
      );
    }
    // Some builds and modular daemons come without the interface driver. That is no fault, and VMs do not need it.
    if (error instanceof LibvirtError) {
      return fine(`not checked: this daemon cannot tell (${error.message})`);
    }
    throw error;
  }
}

function virtTypeRemedy(virtType: 'kvm' | 'qemu'): string {
  return virtType === 'kvm'
    ? 'make /dev/kvm usable on the host: virtualisation enabled in the firmware, module kvm_intel or kvm_amd loaded, qemu-system-x86 installed ' +
        '(virt-host-validate qemu says which is missing)'
    : 'install qemu-system-x86 on the host';
}

function supportedCpuModes(capabilities: string): string[] {
  const cpu = elementAt(parseXml(capabilities), 'cpu');
  return (cpu === null ? [] : childrenOf(cpu, 'mode'))
    .filter(({ attributes }) => attributes['supported'] === 'yes')
    .map(({ attributes }) => attributes['name'] ?? '');
}

/** libvirt's and QEMU's: major * 1,000,000 + minor * 1,000 + release. */
function formatVersion(version: bigint): string {
  return `${version / 1_000_000n}.${(version / 1_000n) % 1_000n}.${version % 1_000n}`;
}
