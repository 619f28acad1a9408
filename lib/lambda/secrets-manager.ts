/** What is used of the Secrets Manager client; as sqs.ts. */
export { SecretsProvider } from '@aws-lambda-powertools/parameters/secrets';
export { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
