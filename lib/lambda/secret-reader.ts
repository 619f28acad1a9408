/** Secrets from Secrets Manager, loaded on first use and remembered for a few minutes, so that a rotated key arrives. */
import type { SecretsProvider } from '@aws-lambda-powertools/parameters/secrets';
import { AWS_TIMEOUTS } from './work-queue.ts';

const MAX_AGE_SECONDS = 300;

/** @throws whatever the client throws; its messages name the secret and never its value. */
export function createSecretReader(): (id: string) => Promise<string> {
  let provider: Promise<SecretsProvider> | undefined;
  return async (id) => {
    provider ??= connect();
    const value = await (await provider).get(id, { maxAge: MAX_AGE_SECONDS });
    if (value === undefined) throw new Error('the secret has no value');
    return typeof value === 'string' ? value : Buffer.from(value).toString('utf8');
  };
}

async function connect(): Promise<SecretsProvider> {
  const { SecretsProvider, SecretsManagerClient } = await import('./secrets-manager.ts');
  return new SecretsProvider({
    awsSdkV3Client: new SecretsManagerClient({ maxAttempts: 2, requestHandler: AWS_TIMEOUTS }),
  });
}
