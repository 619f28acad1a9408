/**
 * The NoCloud seed of a VM: the volume that cloud-init finds by its label `cidata` and configures the guest from.
 * Pure: the same input gives the same bytes, so that two creators of one VM upload the same volume.
 */
import { buildIso9660, type IsoFile } from './iso9660.ts';
import { renderMetaData } from './meta-data.ts';
import { renderNetworkConfig } from './network-config.ts';

/** What cloud-init's NoCloud datasource looks for; it tries this and CIDATA, and no mixture of the two. */
export const SEED_LABEL = 'cidata';

export interface SeedInput {
  readonly instanceId: string;
  readonly hostname: string;
  /** As prepareUserData returned them. */
  readonly userData: Uint8Array;
  readonly vendorData: Uint8Array;
  readonly networkConfig?: unknown;
  /** Lower case, colon separated; fills `${mac}` in networkConfig. */
  readonly mac: string;
  readonly sshAuthorizedKeys: readonly string[];
  /** Every time on the image. */
  readonly createdAt: Date;
}

/** What stands on a seed; network-config only where one was asked for. */
export type SeedFileName = 'user-data' | 'meta-data' | 'vendor-data' | 'network-config';

/**
 * @returns an ISO 9660 image with Rock Ridge and Joliet names, a multiple of 2,048 bytes
 * @throws NetworkConfigError for a network configuration of a wrong shape
 */
export function buildSeed(input: SeedInput): Uint8Array {
  const files: (IsoFile & { readonly name: SeedFileName })[] = [
    { name: 'user-data', content: input.userData },
    { name: 'meta-data', content: Buffer.from(renderMetaData(input), 'utf8') },
    { name: 'vendor-data', content: input.vendorData },
  ];
  if (input.networkConfig !== undefined) {
    const content = Buffer.from(renderNetworkConfig(input.networkConfig, input.mac), 'utf8');
    files.push({ name: 'network-config', content });
  }
  return buildIso9660(files, { volumeId: SEED_LABEL, time: input.createdAt });
}
