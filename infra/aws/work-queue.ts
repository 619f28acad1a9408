/**
 * The queue of work that outlives a request. Standard, not FIFO: FIFO refuses a delay per message. The domain's
 * metadata is the lock, so that a message delivered twice is harmless.
 */

import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Config } from '../../lib/config/schema.ts';

/** Workers at once over all hosts: each is one SSH handshake, and sshd starts refusing at ten unfinished ones. */
const MAX_WORKERS = 10;
/** The worker's longest back-off (lib/lambda/visibility.ts) at its shortest jitter. */
const SECONDS_BETWEEN_LATE_RETRIES = 450;
/** The early retries, before the back-off has grown, and deliveries that Lambda throttled. */
const EARLY_RECEIVES = 20;

export interface WorkQueueProps {
  readonly consumerTimeout: Duration;
  readonly deadlines: Config['deadlines'];
}

export class WorkQueue extends Construct {
  readonly queue: Queue;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { consumerTimeout, deadlines }: WorkQueueProps) {
    super(scope, id);
    this.deadLetters = new Queue(this, 'DeadLetters', {
      retentionPeriod: Duration.days(14),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
    });
    this.queue = new Queue(this, 'Queue', {
      // AWS asks for six times the consumer's timeout; the worker shortens its own message's on receipt.
      visibilityTimeout: Duration.seconds(6 * consumerTimeout.toSeconds()),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      deadLetterQueue: { queue: this.deadLetters, maxReceiveCount: maxReceiveCount(deadlines) },
    });
    new Alarm(this, 'DeadLettersAlarm', {
      alarmDescription:
        'kvm-functions gave up on a message: a defect, since a create or delete ends by its deadline',
      metric: this.deadLetters.metricApproximateNumberOfMessagesVisible({ period: Duration.minutes(5) }),
      threshold: 1,
      evaluationPeriods: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  }

  /** One message an invocation: a failed one then costs no other its time. */
  feed(worker: IFunction): void {
    worker.addEventSource(
      new SqsEventSource(this.queue, {
        batchSize: 1,
        reportBatchItemFailures: true,
        // Not reserved concurrency: a throttled delivery counts as a receive and ends among the dead letters.
        maxConcurrency: MAX_WORKERS,
      }),
    );
  }
}

/**
 * A host that is down keeps failing a message until its VM's deadline, and then the worker ends it with a reason. Were
 * it dead-lettered before, the VM would say "Provisioning" until the collector comes.
 */
function maxReceiveCount({ createSeconds, deleteSeconds }: Config['deadlines']): number {
  const late = Math.ceil(Math.max(createSeconds, deleteSeconds) / SECONDS_BETWEEN_LATE_RETRIES);
  return Math.min(1000, EARLY_RECEIVES + late);
}
