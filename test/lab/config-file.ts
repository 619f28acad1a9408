/**
 * The configuration that the local API is started with against the lab: the product's own format, nothing that
 * only tests know.
 */
import { writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import type { VirtType } from './acceleration.ts';
import { files, GUEST_BRIDGE, HOSTS, IMAGE_NAME, POOL, SSH_USER } from './topology.ts';

export interface ServedImage {
  readonly url: string;
  readonly sha256: string;
}

/** Writes `test/lab/.run/config.yaml`. Paths in it are relative to the file. */
export async function writeConfigFile(virtType: VirtType, image: ServedImage): Promise<void> {
  const config = {
    fleet: 'lab',
    ssh: {
      user: SSH_USER,
      privateKey: { file: './id_ed25519' },
      knownHosts: { file: './known_hosts' },
    },
    hosts: Object.values(HOSTS).map((host) => ({
      name: host.name,
      address: host.address,
      transport: host.transport,
      pool: POOL.name,
      bridge: GUEST_BRIDGE,
      virtType,
    })),
    machineTypes: { small: { vcpus: 1, memoryMiB: 512 } },
    images: { [IMAGE_NAME]: { url: image.url, format: 'qcow2', checksum: `sha256:${image.sha256}` } },
    diskSizeGb: 3,
    readiness: { cloudInit: true },
    deadlines: { createSeconds: 1800, deleteSeconds: 120 },
  };
  await writeFile(files.config, stringify(config));
}
