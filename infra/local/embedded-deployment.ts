/**
 * The default of `npm start`: two embedded hosts, a key that only this run knows, and an image that is an empty disk. The
 * configuration goes through the same parser as a file, so that the default cannot say what a file may not.
 */
import { createHash } from 'node:crypto';
import { parseConfig } from '../../lib/config/parse-config.ts';
import type { Config } from '../../lib/config/schema.ts';
import { startEmbeddedHost } from './hypervisor/embedded-host.ts';
import { generateSshKey } from './hypervisor/ssh-key.ts';
import { buildQcow2 } from './hypervisor/state/qcow2-image.ts';
import { startImageServer } from './image-server.ts';

const HOST_NAMES = ['kvm-a', 'kvm-b'];
const IMAGE_VIRTUAL_BYTES = 2 * 1024 ** 3;

export interface Deployment {
  readonly config: Config;
  readonly readSecret: (id: string) => Promise<string>;
  close(): Promise<void>;
}

export async function startEmbeddedDeployment(): Promise<Deployment> {
  const key = generateSshKey();
  const image = buildQcow2({ virtualSizeBytes: IMAGE_VIRTUAL_BYTES, compat: '1.1' });
  const images = await startImageServer('debian-12.qcow2', image);
  const hosts = await Promise.all(
    HOST_NAMES.map((name) => startEmbeddedHost({ name, authorizedKeys: [key.publicKey] })),
  );
  const close = async () => {
    await Promise.all([images.close(), ...hosts.map((host) => host.close())]);
  };

  const text = JSON.stringify({
    fleet: 'demo',
    ssh: {
      user: 'kvmfn',
      privateKey: { secret: 'embedded-ssh-key' },
      knownHosts: { text: hosts.map(({ knownHosts }) => `${knownHosts}\n`).join('') },
    },
    hosts: hosts.map(({ name, address, port, socketPath }) => ({
      name,
      address,
      port,
      socket: socketPath,
      bridge: 'br0',
    })),
    machineTypes: { small: { vcpus: 1, memoryMiB: 1024 } },
    readiness: { cloudInit: true },
    images: {
      'debian-12': {
        url: images.url,
        format: 'qcow2',
        checksum: `sha256:${createHash('sha256').update(image).digest('hex')}`,
      },
    },
  });
  const parsed = parseConfig(text, { file: 'embedded' });
  if (!parsed.ok) {
    await close();
    throw new Error(`the embedded configuration is wrong: ${JSON.stringify(parsed.faults)}`);
  }
  return { config: parsed.config, readSecret: async () => key.privateKey, close };
}
