/**
 * The known_hosts text, from the configuration itself or from the file beside it. It is read in here so that what
 * follows (a bundle, a function) never needs the file, and checked here so that a host nobody vouches for is
 * found at synth rather than by the first create.
 */
import { resolve } from 'node:path';
import * as z from 'zod';
import { trustHost } from '../ssh/host-trust.ts';
import { type KnownHosts, parseKnownHosts } from '../ssh/known-hosts.ts';
import { SshError } from '../ssh/ssh-error.ts';
import type { PlacedFault } from './fault.ts';

const sketchSchema = z.object({
  ssh: z.object({
    knownHosts: z.object({ text: z.string().optional(), file: z.string().optional() }),
  }),
  hosts: z
    .array(
      z
        .object({ address: z.string(), port: z.int().default(22) })
        .nullable()
        .catch(null),
    )
    .catch([]),
});

export interface KnownHostsReading {
  readonly text: string;
  readonly faults: readonly PlacedFault[];
}

/** `base` is the folder that a relative file path starts from. An absent or malformed field is the schema's fault. */
export function readKnownHosts(
  value: unknown,
  base: string,
  readText: (path: string) => string,
): KnownHostsReading {
  const sketch = sketchSchema.safeParse(value);
  if (!sketch.success) return { text: '', faults: [] };
  const { file, text: inline } = sketch.data.ssh.knownHosts;
  const path = ['ssh', 'knownHosts', file === undefined ? 'text' : 'file'];
  let text = inline ?? '';
  if (file !== undefined) {
    try {
      text = readText(resolve(base, file));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { text: '', faults: [{ path, detail: `cannot be read: ${reason}` }] };
    }
  } else if (inline === undefined) {
    return { text: '', faults: [] };
  }

  const knownHosts = parseKnownHosts(text);
  const lineFaults = knownHosts.faults.map(({ line, detail }) => ({ path, textLine: line, detail }));
  const hostFaults = sketch.data.hosts.flatMap((host, index): PlacedFault[] => {
    const detail = host === null ? null : distrust(knownHosts, host.address, host.port);
    return detail === null ? [] : [{ path: ['hosts', index, 'address'], detail }];
  });
  return { text, faults: [...lineFaults, ...hostFaults] };
}

/** Why no session to this address could ever be trusted; null when one can. */
function distrust(knownHosts: KnownHosts, address: string, port: number): string | null {
  try {
    trustHost(knownHosts, address, port);
    return null;
  } catch (error) {
    if (error instanceof SshError) return error.message;
    throw error;
  }
}
