/** An instance's id: `host/name`, both DNS labels. */
import { ProviderError } from '../provider/provider-error.ts';

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** @throws ProviderError `invalid-request` for anything but two DNS labels. */
export function parseInstanceId(id: string): { readonly host: string; readonly name: string } {
  const [host = '', name = '', ...rest] = id.split('/');
  if (rest.length > 0 || !DNS_LABEL.test(host) || !DNS_LABEL.test(name)) {
    throw new ProviderError('invalid-request', 'an id is host/name, both DNS labels', {
      errors: [{ pointer: '/id', detail: 'host/name, both DNS labels' }],
    });
  }
  return { host, name };
}
