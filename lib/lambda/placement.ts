/**
 * What a create request may name in this deployment. Checked apart from the shape, on the raw input, so that an
 * unknown image is reported together with whatever else is wrong.
 */
import type { Config } from '../config/schema.ts';
import type { Fault } from '../provider/provider-error.ts';
import { ProviderError } from '../provider/provider-error.ts';

/** Unknown names are a fault of the request here; in a path an unknown host is a 404 instead. */
export function placementFaults(input: unknown, config: Config): readonly Fault[] {
  const placement = property(input, 'placement');
  if (typeof placement !== 'object' || placement === null) return [];
  const hosts = config.hosts.map((host) => host.name);
  const known: readonly (readonly [string, string, readonly string[]])[] = [
    ['host', 'host', hosts],
    ['machineType', 'machine type', Object.keys(config.machineTypes)],
    ['image', 'image', Object.keys(config.images)],
  ];
  const faults = known.flatMap(([field, noun, names]) => {
    const name = property(placement, field);
    if (typeof name !== 'string' || names.includes(name)) return [];
    return [
      { pointer: `/placement/${field}`, detail: `is not a ${noun} of this deployment: ${names.join(', ')}` },
    ];
  });
  if (property(placement, 'host') === undefined && hosts.length > 1) {
    faults.push({ pointer: '/placement/host', detail: `is missing; there are several: ${hosts.join(', ')}` });
  }
  return faults;
}

/** @throws ProviderError `not-found`, before anything is dialled. */
export function requireKnownHost(host: string, config: Config): void {
  if (config.hosts.some((known) => known.name === host)) return;
  throw new ProviderError('not-found', 'there is no such host', { host });
}

function property(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Object.getOwnPropertyDescriptor(value, name)?.value;
}
