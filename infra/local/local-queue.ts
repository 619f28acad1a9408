/** The work queue and its dead-letter queue in an SQS emulator of this process, spoken to over its real protocol. */
import { SQSClient } from '@aws-sdk/client-sqs';
import { startFauxqs } from 'fauxqs';

/** As in the CDK stack: six times the worker's fifteen minutes, and enough deliveries for a host that is down for long. */
const VISIBILITY_SECONDS = 6 * 15 * 60;
const MAX_RECEIVE_COUNT = 25;
const REGION = 'us-east-1';

export interface LocalQueue {
  readonly client: SQSClient;
  /** Where the protocol is spoken; `url` only names the queue. */
  readonly endpoint: string;
  readonly url: string;
  readonly arn: string;
  readonly deadLetterUrl: string;
  close(): Promise<void>;
}

/** On a free port of loopback. Empty at every start: what is left to do, the collector finds on the hosts. */
export async function startLocalQueue(): Promise<LocalQueue> {
  const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false, defaultRegion: REGION });
  const deadLetters = server.createQueue('dead-letters');
  const work = server.createQueue('work', {
    attributes: {
      VisibilityTimeout: String(VISIBILITY_SECONDS),
      RedrivePolicy: JSON.stringify({
        deadLetterTargetArn: deadLetters.queueArn,
        maxReceiveCount: String(MAX_RECEIVE_COUNT),
      }),
    },
  });
  const endpoint = `http://127.0.0.1:${server.port}`;
  const client = new SQSClient({
    endpoint,
    region: REGION,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  return {
    client,
    endpoint,
    url: work.queueUrl,
    arn: work.queueArn,
    deadLetterUrl: deadLetters.queueUrl,
    close: async () => {
      client.destroy();
      await server.stop();
    },
  };
}
