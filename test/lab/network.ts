/**
 * The cables of the lab: a bridge in the root namespace, where the test runner and the "cloud" are, and a veth
 * pair to each host. Behind its host a guest network of its own, routed: the test runner reaches a guest by its
 * address, guests reach nothing else.
 */
import { run, waitUntil } from './commands.ts';
import { enterHost, findHost } from './host.ts';
import { GUEST_BRIDGE, HOST_NETWORK, HOSTS, LAB_NETWORK, type LabHost, PREFIX_LENGTH } from './topology.ts';

/** @throws Error when this machine already reaches something by the lab's addresses: its gateway, a VPN */
export async function createHostNetwork(): Promise<void> {
  const routes = await Promise.all([
    run('ip', ['route', 'show', 'table', 'all', 'match', LAB_NETWORK]), // what contains the lab's network
    run('ip', ['route', 'show', 'table', 'all', 'root', LAB_NETWORK]), // what is inside of it
  ]);
  const taken = routes
    .join('')
    .split('\n')
    .find((line) => line !== '' && !line.startsWith('default'));
  if (taken !== undefined) throw new Error(`${LAB_NETWORK} is in use on this machine: ${taken}`);

  await run('ip', ['link', 'add', HOST_NETWORK.bridge, 'type', 'bridge']);
  await run('ip', ['address', 'add', `${HOST_NETWORK.address}/${PREFIX_LENGTH}`, 'dev', HOST_NETWORK.bridge]);
  await run('ip', ['link', 'set', HOST_NETWORK.bridge, 'up']);
}

/** Plugs a host in, gives it its address and its guest bridge, and makes it the router of its guests. */
export async function connectHost(host: LabHost): Promise<void> {
  const { pid } = await findHost(host);
  await run('ip', ['link', 'add', host.link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid)]);
  await run('ip', ['link', 'set', host.link, 'master', HOST_NETWORK.bridge, 'up']);
  const commands = [
    ['link', 'set', 'lo', 'up'],
    ['address', 'add', `${host.address}/${PREFIX_LENGTH}`, 'dev', 'eth0'],
    ['link', 'set', 'eth0', 'up'],
    ['link', 'add', GUEST_BRIDGE, 'type', 'bridge'],
    ['address', 'add', `${host.guests.gateway}/${PREFIX_LENGTH}`, 'dev', GUEST_BRIDGE],
    ['link', 'set', GUEST_BRIDGE, 'up'],
  ];
  for (const command of commands) await enterHost(host, 'ip', command);
  await enterHost(host, 'sysctl', ['--quiet', '--write', 'net.ipv4.ip_forward=1']);
  await run('ip', ['route', 'add', host.guests.subnet, 'via', host.address, 'dev', HOST_NETWORK.bridge]);
}

/** Addresses for guests, no names: with a name server a guest without internet would wait for answers that never come. */
export async function startDhcp(host: LabHost): Promise<void> {
  await enterHost(host, 'dnsmasq', [
    '--conf-file=/dev/null',
    '--port=0',
    `--interface=${GUEST_BRIDGE}`,
    '--bind-interfaces',
    '--except-interface=lo',
    '--dhcp-authoritative',
    `--dhcp-range=${host.guests.firstAddress},${host.guests.lastAddress},1h`,
    `--dhcp-option=option:router,${host.guests.gateway}`,
    '--dhcp-leasefile=/run/dnsmasq.leases',
    '--pid-file=/run/dnsmasq.pid',
    '--log-facility=/var/log/libvirt/dnsmasq.log',
  ]);
}

/** Removes what of the network is in the root namespace; the hosts' ends go with them. May be repeated. */
export async function removeHostNetwork(): Promise<void> {
  for (const link of [...Object.values(HOSTS).map((host) => host.link), HOST_NETWORK.bridge]) {
    if (await linkExists(link)) await run('ip', ['link', 'delete', link]).catch(() => {}); // or its namespace took it along just now
    await waitUntil(`removal of ${link}`, async () => !(await linkExists(link)));
  }
}

export function linkExists(link: string): Promise<boolean> {
  return run('ip', ['link', 'show', link]).then(
    () => true,
    () => false,
  );
}
