/**
 * When the collector runs. Its input is written out, because the schedule's own event says nothing about the mode.
 */

import { Duration } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Schedule, ScheduleExpression, ScheduleTargetInput } from 'aws-cdk-lib/aws-scheduler';
import { LambdaInvoke } from 'aws-cdk-lib/aws-scheduler-targets';
import { Construct } from 'constructs';

export interface CollectorScheduleProps {
  readonly collector: IFunction;
  /** `rate(…)` or `cron(…)`, in UTC. */
  readonly expression: string;
  readonly input: { readonly mode: string };
}

export class CollectorSchedule extends Construct {
  constructor(scope: Construct, id: string, { collector, expression, input }: CollectorScheduleProps) {
    super(scope, id);
    new Schedule(this, 'Schedule', {
      description: 'kvm-functions: collects what is due',
      schedule: ScheduleExpression.expression(expression),
      target: new LambdaInvoke(collector, {
        input: ScheduleTargetInput.fromObject(input),
        // The next run does what this one missed.
        retryAttempts: 0,
        maxEventAge: Duration.minutes(5),
      }),
    });
  }
}
