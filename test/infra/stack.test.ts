import { Match, type Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { FUNCTION_NAMES, ROUTES } from '../../infra/routes.ts';
import {
  actionsOf,
  policyStatements,
  resourcesOf,
  statementsOf,
  synthesise,
  theResource,
} from './synthesised-stack.ts';

let template: Template;
beforeAll(() => {
  template = synthesise();
});

const lambda = (prefix: string, from = template) =>
  theResource(from, 'AWS::Lambda::Function', `${prefix}Function`);
const SESSION_FUNCTIONS = ['create', 'get', 'list', 'delete', 'worker', 'gc', 'doctor'];
const ROUTED_FUNCTIONS = ['create', 'get', 'list', 'delete', 'doctor', 'notfound'];

describe('the HTTP API', () => {
  it('has the routes of the table and a fallback, all of them for callers who sign with IAM', () => {
    const routes = resourcesOf(template, 'AWS::ApiGatewayV2::Route').map(({ Properties }) => [
      Properties['RouteKey'],
      Properties['AuthorizationType'],
    ]);

    const expected = [...ROUTES.map(({ method, path }) => `${method} ${path}`), '$default'];
    expect(routes.sort()).toEqual(expected.sort().map((key) => [key, 'AWS_IAM']));
  });

  it('hands every request on as payload 2.0, which is what the functions read', () => {
    const versions = resourcesOf(template, 'AWS::ApiGatewayV2::Integration').map(
      ({ Properties }) => Properties['PayloadFormatVersion'],
    );

    expect(versions).toEqual(Array(ROUTES.length + 1).fill('2.0'));
  });

  it('LM-08: its functions end before the gateway gives up on them', () => {
    for (const name of ROUTED_FUNCTIONS) expect(lambda(name).Properties['Timeout']).toBeLessThan(29);
  });

  it('tells the fallback which routes there are', () => {
    const { Environment } = lambda('notfound').Properties as {
      Environment: { Variables: { KVM_FUNCTIONS_ROUTES: string } };
    };

    expect(JSON.parse(Environment.Variables.KVM_FUNCTIONS_ROUTES)).toEqual(
      ROUTES.map(({ method, path }) => ({ method, path })),
    );
  });
});

describe('the functions', () => {
  it('are those of the table, on Node 24 and arm64, each with a log that ends', () => {
    template.resourceCountIs('AWS::Lambda::Function', FUNCTION_NAMES.length);
    template.allResourcesProperties('AWS::Lambda::Function', {
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      LoggingConfig: { LogGroup: Match.anyValue() },
    });
    template.resourceCountIs('AWS::Logs::LogGroup', FUNCTION_NAMES.length);
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
  });

  it('have no rights but those they use', () => {
    const log = ['logs:CreateLogStream', 'logs:PutLogEvents'];
    const placed = [
      'ec2:AssignPrivateIpAddresses',
      'ec2:CreateNetworkInterface',
      'ec2:DeleteNetworkInterface',
      'ec2:DescribeNetworkInterfaces',
      'ec2:DescribeSubnets',
      'ec2:UnassignPrivateIpAddresses',
    ];
    const session = [...placed, ...log, 'secretsmanager:DescribeSecret', 'secretsmanager:GetSecretValue'];
    const consume = [
      'sqs:ChangeMessageVisibility',
      'sqs:DeleteMessage',
      'sqs:GetQueueAttributes',
      'sqs:GetQueueUrl',
      'sqs:ReceiveMessage',
    ];

    const actions = Object.fromEntries(
      [...SESSION_FUNCTIONS, 'notfound'].map((name) => [name, actionsOf(statementsOf(template, name))]),
    );

    expect(actions).toEqual({
      create: [...session, 'sqs:SendMessage'].sort(),
      get: session.sort(),
      list: session,
      delete: [...session, 'sqs:SendMessage'].sort(),
      worker: [...session, ...consume, 'sqs:SendMessage'].sort(),
      gc: [...session, 'sqs:SendMessage'].sort(),
      doctor: session,
      notfound: log,
    });
  });

  it('are granted nothing by wildcard but the network interfaces that Lambda makes in their name', () => {
    const granted = resourcesOf(template, 'AWS::IAM::Policy')
      .flatMap(policyStatements)
      .filter(({ Effect }) => Effect === 'Allow');

    expect(actionsOf(granted).filter((action) => action.includes('*'))).toEqual([]);
    const anywhere = granted.filter(({ Resource }) => Resource === '*');
    expect(actionsOf(anywhere).filter((action) => !action.startsWith('ec2:'))).toEqual([]);
    for (const { Properties } of resourcesOf(template, 'AWS::IAM::Role')) {
      expect(Properties).not.toHaveProperty('ManagedPolicyArns');
    }
  });

  it('read the one secret that the configuration names', () => {
    const [statement] = statementsOf(template, 'create').filter(({ Action }) =>
      JSON.stringify(Action).includes('secretsmanager'),
    );

    expect(JSON.stringify(statement?.Resource)).toContain(':secret:kvm-functions/ssh-key-??????');
  });

  it('read a secret given by its ARN, with or without the six characters at its end', () => {
    const arn = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:kvm/key';
    const complete = synthesise([['secret: kvm-functions/ssh-key', `secret: "${arn}-aB3dE6"`]]);
    const partial = synthesise([['secret: kvm-functions/ssh-key', `secret: "${arn}"`]]);

    expect(JSON.stringify(statementsOf(complete, 'get'))).toContain(`"${arn}-aB3dE6"`);
    expect(JSON.stringify(statementsOf(partial, 'get'))).toContain(`"${arn}-??????"`);
  });

  it('read the passphrase too when the key has one', () => {
    const locked = synthesise([
      ['  knownHosts:', '  passphrase: { secret: kvm-functions/phrase }\n  knownHosts:'],
    ]);

    for (const name of SESSION_FUNCTIONS) {
      expect(JSON.stringify(statementsOf(locked, name))).toContain('kvm-functions/phrase-??????');
    }
    expect(JSON.stringify(statementsOf(locked, 'notfound'))).not.toContain('phrase');
  });
});

describe('the work queue', () => {
  it('LM-03: takes back the messages that a batch reports as failed, one message a batch', () => {
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      BatchSize: 1,
    });
    template.resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
  });

  it('LM-04: hides a message longer than a worker can run, and bears throttled deliveries', () => {
    const queue = theResource(template, 'AWS::SQS::Queue', 'WorkQueue').Properties;
    const timeout = Number(lambda('worker').Properties['Timeout']);

    expect(timeout).toBe(900);
    expect(queue['VisibilityTimeout']).toBeGreaterThanOrEqual(6 * timeout);
    expect(queue['VisibilityTimeout']).toBeLessThanOrEqual(43_200);
    expect(queue['RedrivePolicy']).toMatchObject({ deadLetterTargetArn: expect.anything() });
    expect((queue['RedrivePolicy'] as { maxReceiveCount: number }).maxReceiveCount).toBeGreaterThanOrEqual(5);
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      ScalingConfig: { MaximumConcurrency: 10 },
    });
    expect(lambda('worker').Properties).not.toHaveProperty('ReservedConcurrentExecutions');
  });

  it('LM-04: keeps delivering until the deadline of what it carries', () => {
    const receives = (text: string) => {
      const queue = theResource(
        synthesise([['aws:', `${text}\naws:`]]),
        'AWS::SQS::Queue',
        'WorkQueue',
      ).Properties;
      return (queue['RedrivePolicy'] as { maxReceiveCount: number }).maxReceiveCount;
    };
    // The worker backs off by 900 s at most, half of it for certain.
    const needed = (seconds: number) => seconds / 450;

    expect(receives('deadlines: { createSeconds: 86400 }')).toBeGreaterThan(needed(86_400));
    expect(receives('deadlines: { deleteSeconds: 43200 }')).toBeGreaterThan(needed(43_200));
    expect(receives('deadlines: { createSeconds: 604800 }')).toBeLessThanOrEqual(1000);
  });

  it('is a standard queue: FIFO refuses a delay per message', () => {
    for (const { Properties } of resourcesOf(template, 'AWS::SQS::Queue')) {
      expect(Properties).not.toHaveProperty('FifoQueue');
      expect(Properties['SqsManagedSseEnabled']).toBe(true);
    }
    const variables = lambda('create').Properties['Environment'] as {
      Variables: Record<string, { Ref: string }>;
    };
    expect(variables.Variables['KVM_FUNCTIONS_QUEUE_URL']?.Ref).toMatch(/^WorkQueue/);
  });

  it('raises an alarm for a single dead letter', () => {
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'ApproximateNumberOfMessagesVisible',
      Dimensions: [
        {
          Name: 'QueueName',
          Value: { 'Fn::GetAtt': [Match.stringLikeRegexp('^WorkDeadLetters'), 'QueueName'] },
        },
      ],
      Threshold: 1,
      ComparisonOperator: 'GreaterThanOrEqualToThreshold',
      TreatMissingData: 'notBreaching',
    });
  });
});

describe('the schedule', () => {
  it('calls the collector with its mode written out', () => {
    template.hasResourceProperties('AWS::Scheduler::Schedule', {
      ScheduleExpression: 'rate(5 minutes)',
      Target: {
        Arn: { 'Fn::GetAtt': [Match.stringLikeRegexp('^gcFunction'), 'Arn'] },
        Input: '{"mode":"report"}',
      },
    });
  });

  it('follows the configuration', () => {
    const other = synthesise([
      ['rate(5 minutes)', 'cron(0 3 * * ? *)'],
      ['aws:', 'gc: { mode: delete }\naws:'],
    ]);

    other.hasResourceProperties('AWS::Scheduler::Schedule', {
      ScheduleExpression: 'cron(0 3 * * ? *)',
      Target: { Input: '{"mode":"delete"}' },
    });
  });

  it('leaves a failed run to the next one', () => {
    template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', { MaximumRetryAttempts: 0 });
    template.hasResourceProperties('AWS::Scheduler::Schedule', {
      Target: { RetryPolicy: { MaximumRetryAttempts: 0 } },
    });
  });
});

describe('the outputs', () => {
  it('say what is needed to call it and to finish the VPN', () => {
    for (const name of ['ApiUrl', 'QueueUrl', 'DeadLetterQueueUrl', 'VpnConnectionId']) {
      expect(Object.keys(template.findOutputs(name))).toEqual([name]);
    }
  });
});
