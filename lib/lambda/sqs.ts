/** What is used of the SQS client. Imported by name here and as a whole on first use, so that bundles carry no more. */
export { ChangeMessageVisibilityCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
