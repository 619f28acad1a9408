/** The lab's hosts as the functions reach them: the configuration that `up` wrote, and the dialer made from it. */
import { loadConfig } from '../../lib/config/parse-config.ts';

import { resolveSecrets } from '../../lib/config/secrets.ts';
import type { Dial, KvmHost } from '../../lib/kvm/provider-options.ts';
import { createDialer } from '../../lib/lambda/host-dialer.ts';
import { files } from './topology.ts';

/** @throws Error when the lab is not up. */
export async function openLab(): Promise<{ readonly hosts: readonly KvmHost[]; readonly dial: Dial }> {
  const loaded = loadConfig(files.config);
  if (!loaded.ok) throw new Error(`${files.config}: ${JSON.stringify(loaded.faults)}`);
  const { config } = loaded;
  const readSecret = () => Promise.reject(new Error('the key of the lab is a file'));
  return { hosts: config.hosts, dial: createDialer(config, await resolveSecrets(config, { readSecret })) };
}
