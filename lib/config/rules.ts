/**
 * What several fields must agree on. The rules read the raw document leniently, so that they are applied also to a
 * file with faults elsewhere; a part that cannot be read is skipped here, because the schema has already named it.
 */
import { isIPv4 } from 'node:net';
import * as z from 'zod';
import { cidrContains, cidrsOverlap, type Ipv4Cidr, parseIpv4Cidr } from './cidr.ts';
import type { PlacedFault } from './fault.ts';
import { DNS_LABEL, DNS_LABEL_RULE } from './names.ts';

const words = z.array(z.string().catch('')).catch([]);
const mapping = z.record(z.string(), z.unknown()).catch({});
const sketchSchema = z.object({
  fleet: z.string().optional().catch(undefined),
  ssh: z.object({ privateKey: mapping, passphrase: mapping }).catch({ privateKey: {}, passphrase: {} }),
  hosts: z
    .array(
      z
        .object({
          name: z.string().optional().catch(undefined),
          address: z.string().optional().catch(undefined),
          port: z.number().catch(22),
          socket: z.string().catch(''),
        })
        .catch({ name: undefined, address: undefined, port: 22, socket: '' }),
    )
    .catch([]),
  machineTypes: mapping,
  readiness: z.object({ cloudInit: z.unknown() }).catch({ cloudInit: undefined }),
  images: z.record(z.string(), z.object({ url: z.string().catch('') }).catch({ url: '' })).catch({}),
  aws: z
    .object({
      vpc: z
        .object({
          new: z
            .object({ cidr: z.string().catch(''), routes: words })
            .optional()
            .catch(undefined),
          subnetIds: words,
          availabilityZones: words,
        })
        .catch({ new: undefined, subnetIds: [], availabilityZones: [] }),
      onPremCidrs: words,
      egress: z.string().catch(''),
    })
    .optional()
    .catch(undefined),
});
type Sketch = z.infer<typeof sketchSchema>;

/** `synth`: the file is about to be deployed. `run`: it is read by a function or the local twin. */
export function checkRules(value: unknown, use: 'synth' | 'run'): PlacedFault[] {
  const sketch = sketchSchema.safeParse(value);
  if (!sketch.success) return [];
  return [
    ...nameFaults(sketch.data),
    ...duplicateHostFaults(sketch.data),
    ...scrubFaults(sketch.data),
    ...(use === 'synth' ? localOnlyFaults(sketch.data) : []),
    ...networkFaults(sketch.data),
    ...egressFaults(sketch.data),
  ];
}

function nameFaults({ fleet, hosts, machineTypes, images }: Sketch): PlacedFault[] {
  const names: { path: PropertyKey[]; part: 'key' | 'value'; name: string | undefined }[] = [
    { path: ['fleet'], part: 'value', name: fleet },
    ...hosts.map(({ name }, index) => ({ path: ['hosts', index, 'name'], part: 'value' as const, name })),
    ...Object.keys(machineTypes).map((name) => ({
      path: ['machineTypes', name],
      part: 'key' as const,
      name,
    })),
    ...Object.keys(images).map((name) => ({ path: ['images', name], part: 'key' as const, name })),
  ];
  return names
    .filter(({ name }) => name !== undefined && !DNS_LABEL.test(name))
    .map(({ path, part }) => ({ path, part, detail: DNS_LABEL_RULE }));
}

/** Two names for one daemon would each collect what the other one made. */
function duplicateHostFaults({ hosts }: Sketch): PlacedFault[] {
  const faults: PlacedFault[] = [];
  for (const [index, host] of hosts.entries()) {
    const earlier = hosts.slice(0, index);
    const sameName = earlier.findIndex(({ name }) => name !== undefined && name === host.name);
    if (sameName >= 0) {
      faults.push({ path: ['hosts', index, 'name'], detail: `is also the name of hosts[${sameName}]` });
    }
    const sameDaemon = earlier.findIndex(
      ({ address, port, socket }) =>
        address !== undefined && address === host.address && port === host.port && socket === host.socket,
    );
    if (sameDaemon >= 0) {
      faults.push({
        path: ['hosts', index, 'address'],
        detail: `is also the address of hosts[${sameDaemon}], with the same port and socket`,
      });
    }
  }
  return faults;
}

const scrubbing = z.object({ seed: z.object({ scrub: z.literal(true) }) });

/** Nobody could ever tell when such a VM's seed may be scrubbed: each would end as overdue. */
function scrubFaults({ machineTypes, readiness }: Sketch): PlacedFault[] {
  if (readiness.cloudInit === true) return [];
  return Object.entries(machineTypes)
    .filter(([, machineType]) => scrubbing.safeParse(machineType).success)
    .map(([name]) => ({
      path: ['machineTypes', name, 'seed', 'scrub'],
      detail: 'needs readiness.cloudInit: true, which says when cloud-init is done',
    }));
}

function localOnlyFaults({ ssh, images, aws }: Sketch): PlacedFault[] {
  const faults: PlacedFault[] = [];
  for (const key of ['privateKey', 'passphrase'] as const) {
    if (!Object.hasOwn(ssh[key], 'file')) continue;
    faults.push({
      path: ['ssh', key, 'file'],
      detail: 'a file is for local use only: put it into Secrets Manager and name the secret',
    });
  }
  for (const [name, { url }] of Object.entries(images)) {
    if (!url.startsWith('file:')) continue;
    faults.push({ path: ['images', name, 'url'], detail: 'a file URL is for local use only' });
  }
  if (aws === undefined) faults.push({ path: ['aws'], detail: 'is missing' });
  return faults;
}

function networkFaults({ aws }: Sketch): PlacedFault[] {
  if (aws === undefined) return [];
  const faults: PlacedFault[] = [];
  const { new: created, subnetIds, availabilityZones } = aws.vpc;
  if (created === undefined) {
    if (subnetIds.length > 0 && availabilityZones.length !== subnetIds.length) {
      faults.push({
        path: ['aws', 'vpc', 'availabilityZones'],
        detail: 'must name the zone of each subnet, in the same order',
      });
    }
    return faults;
  }
  const own = parseIpv4Cidr(created.cidr);
  if (own === null) return faults;
  const onPremises: [PropertyKey[], string][] = [
    ...created.routes.map((text, index): [PropertyKey[], string] => [
      ['aws', 'vpc', 'new', 'routes', index],
      text,
    ]),
    ...aws.onPremCidrs.map((text, index): [PropertyKey[], string] => [['aws', 'onPremCidrs', index], text]),
  ];
  for (const [path, text] of onPremises) {
    const cidr = parseIpv4Cidr(text);
    if (cidr !== null && cidrsOverlap(own, cidr)) faults.push({ path, detail: 'overlaps aws.vpc.new.cidr' });
  }
  return faults;
}

/** Without NAT the worker reaches S3 through its gateway endpoint and the networks on premises, nothing else. */
function egressFaults({ aws, images }: Sketch): PlacedFault[] {
  if (aws?.egress !== 'endpoints') return [];
  const onPremises = aws.onPremCidrs.map(parseIpv4Cidr).filter((cidr) => cidr !== null);
  return Object.entries(images)
    .filter(([, { url }]) => URL.canParse(url) && !isReachableWithoutNat(new URL(url), onPremises))
    .map(([name]) => ({
      path: ['images', name, 'url'],
      detail:
        'with aws.egress endpoints an image must be on S3 or at an address inside aws.onPremCidrs; ' +
        'else use aws.egress nat',
    }));
}

function isReachableWithoutNat(url: URL, onPremises: readonly Ipv4Cidr[]): boolean {
  // A file URL is another fault's business.
  if (url.protocol === 'file:') return true;
  if (isIPv4(url.hostname)) return onPremises.some((cidr) => cidrContains(cidr, url.hostname));
  return /(?:^|\.)s3[.-](?:[a-z0-9.-]+\.)?amazonaws\.com(?:\.cn)?$/.test(url.hostname);
}
