import { once } from 'node:events';
import { connect } from 'node:net';
import { createEmbeddedLibvirt } from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import { LibvirtConnection } from '../../../../lib/libvirt/index.ts';
import { describeDaemon } from './daemon-behaviour.ts';

describeDaemon('the embedded libvirtd', async () => {
  const daemon = createEmbeddedLibvirt({ name: 'host' });
  return {
    connect: () => LibvirtConnection.open(daemon.connect()),
    pool: 'default',
    poolPath: '/var/lib/libvirt/images',
    bridge: 'br0',
  };
});

/** `LIBVIRT_SOCKET=/run/libvirt/libvirt-sock`: a host for tests only, since every domain on it is destroyed. */
const realSocket = process.env['LIBVIRT_SOCKET'];
if (realSocket !== undefined) {
  describeDaemon(`the libvirtd at ${realSocket}`, async () => ({
    connect: async () => {
      const socket = connect(realSocket);
      await once(socket, 'connect');
      return LibvirtConnection.open(socket);
    },
    pool: process.env['LIBVIRT_POOL'] ?? 'default',
    poolPath: process.env['LIBVIRT_POOL_PATH'] ?? '/var/lib/libvirt/images',
    bridge: process.env['LIBVIRT_BRIDGE'] ?? 'br0',
  }));
}
