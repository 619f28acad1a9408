/** Get: looks afresh, the guest's address included, and records what it saw. */

import { ERROR_CODE } from '../libvirt/errors.ts';
import type { Instance } from '../provider/instance.ts';
import { ProviderError } from '../provider/provider-error.ts';
import { hasCode, toProviderError } from './error-classification.ts';
import { parseInstanceId } from './instance-id.ts';
import { observe } from './observe-vm.ts';
import { hostNamed, type ProviderContext } from './provider-context.ts';
import { asOwn, findVmByName } from './vm.ts';

/** The id carries the host, so this looks at the right hypervisor whatever the placement says later. */
export async function getVm(context: ProviderContext, id: string): Promise<Instance> {
  const { host: hostName, name } = parseInstanceId(id);
  const host = hostNamed(context, hostName);
  try {
    const session = await context.sessions.get(host);
    const found = await findVmByName(session, name);
    const vm = found === null ? null : asOwn(found, context.options.fleet);
    if (vm === null) throw notThere(id);
    return await observe(context, session, vm, { lookAfresh: true, askReadiness: true });
  } catch (error) {
    if (hasCode(error, ERROR_CODE.noDomain)) throw notThere(id);
    throw toProviderError(error, { op: 'get', host: host.name, id });
  }
}

/** A foreign domain of that name is nobody's business here. */
function notThere(id: string): ProviderError {
  return new ProviderError('not-found', `there is no VM ${id}`, { op: 'get', id });
}
