/**
 * The whole deployment in one stack: network, queue, functions, API, schedule. Read top down it says who may do what:
 * a function that opens sessions reads the key and stands in the VPC, one that leaves work behind sends to the queue.
 */
import { CfnOutput, Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import type { Config, SecretSource } from '../../lib/config/schema.ts';
import { FALLBACK_FUNCTION, type FunctionName, ROUTES } from '../routes.ts';
import { CollectorSchedule } from './collector-schedule.ts';
import type { Bundles } from './deployment-bundles.ts';
import { HostSecurityGroups } from './host-security-groups.ts';
import { HttpApiRoutes } from './http-api-routes.ts';
import { KvmFunction } from './kvm-function.ts';
import { Network } from './network.ts';
import { WorkQueue } from './work-queue.ts';

/** The gateway gives up after 30 s: a function that ran on would do work whose answer nobody sees. */
const API_TIMEOUT = Duration.seconds(28);
/** Lambda's longest; an image import uses what there is of it. */
const LONG_TIMEOUT = Duration.minutes(15);
const SESSION_MEMORY_MIB = 1024;
/** One whole vCPU: ssh2 encrypts in JavaScript, and an import hashes every byte besides. */
const WORKER_MEMORY_MIB = 1769;

export interface KvmFunctionsStackProps extends StackProps {
  readonly config: Config;
  readonly bundles: Bundles;
}

export class KvmFunctionsStack extends Stack {
  constructor(scope: Construct, id: string, { config, bundles, ...props }: KvmFunctionsStackProps) {
    super(scope, id, { description: 'Virtual machines on KVM hosts on premises, as functions', ...props });
    const { aws } = config;
    if (aws === undefined) throw new Error('the configuration has no aws section');

    const network = new Network(this, 'Network', aws);
    const groups = new HostSecurityGroups(this, 'SecurityGroups', { network, config, aws });
    const work = new WorkQueue(this, 'Work', { consumerTimeout: LONG_TIMEOUT, deadlines: config.deadlines });
    const secrets = this.importSecrets(config);

    /** A function that talks to hosts. */
    const sessionFunction = (name: FunctionName, description: string, timeout: Duration) => {
      const { function: created } = new KvmFunction(this, name, {
        bundle: bundles[name],
        description: `kvm-functions: ${description}`,
        timeout,
        memorySize: name === 'worker' ? WORKER_MEMORY_MIB : SESSION_MEMORY_MIB,
        placement: { network, securityGroup: name === 'worker' ? groups.worker : groups.api },
        environment: { KVM_FUNCTIONS_QUEUE_URL: work.queue.queueUrl },
      });
      for (const secret of secrets) secret.grantRead(created);
      return created;
    };
    const create = sessionFunction('create', 'creates a VM', API_TIMEOUT);
    const get = sessionFunction('get', 'shows a VM', API_TIMEOUT);
    const list = sessionFunction('list', 'lists the fleet’s VMs', API_TIMEOUT);
    const remove = sessionFunction('delete', 'deletes a VM', API_TIMEOUT);
    const worker = sessionFunction('worker', 'goes on with work from the queue', LONG_TIMEOUT);
    const gc = sessionFunction('gc', 'collects what is due', LONG_TIMEOUT);
    const doctor = sessionFunction('doctor', 'examines a host', API_TIMEOUT);
    const { function: fallback } = new KvmFunction(this, FALLBACK_FUNCTION, {
      bundle: bundles[FALLBACK_FUNCTION],
      description: 'kvm-functions: answers requests that match no route',
      timeout: Duration.seconds(5),
      memorySize: 128,
      environment: {
        KVM_FUNCTIONS_ROUTES: JSON.stringify(ROUTES.map(({ method, path }) => ({ method, path }))),
      },
    });

    work.feed(worker);
    // The scheduler's call is asynchronous; Lambda would repeat a failed run twice, but the next one is due anyway.
    gc.configureAsyncInvoke({ retryAttempts: 0, maxEventAge: Duration.minutes(5) });
    for (const sender of [create, remove, worker, gc]) work.queue.grant(sender, 'sqs:SendMessage');
    new CollectorSchedule(this, 'Collector', {
      collector: gc,
      expression: aws.schedule,
      input: { mode: config.gc.mode },
    });
    const api = new HttpApiRoutes(this, 'Http', {
      create,
      get,
      list,
      delete: remove,
      doctor,
      [FALLBACK_FUNCTION]: fallback,
    });

    new CfnOutput(this, 'ApiUrl', { value: api.url, description: 'sign requests with IAM (execute-api)' });
    new CfnOutput(this, 'QueueUrl', { value: work.queue.queueUrl });
    new CfnOutput(this, 'DeadLetterQueueUrl', { value: work.deadLetters.queueUrl });
    if (network.vpnConnectionId !== null) {
      new CfnOutput(this, 'VpnConnectionId', {
        value: network.vpnConnectionId,
        description: 'its configuration file is for the device on premises',
      });
    }
  }

  /** They are made by hand before the first deployment: a key that CloudFormation made would stand in its template. */
  private importSecrets({ ssh }: Config): ISecret[] {
    const sources: [string, SecretSource | undefined][] = [
      ['SshKey', ssh.privateKey],
      ['SshPassphrase', ssh.passphrase],
    ];
    return sources.flatMap(([id, source]) =>
      source !== undefined && 'secret' in source ? [importSecret(this, id, source.secret)] : [],
    );
  }
}

/** An ARN ends in six characters that AWS adds to the name; without them it is only the beginning of one. */
function importSecret(scope: Construct, id: string, nameOrArn: string): ISecret {
  if (!nameOrArn.startsWith('arn:')) return Secret.fromSecretNameV2(scope, id, nameOrArn);
  return /-[A-Za-z0-9]{6}$/.test(nameOrArn)
    ? Secret.fromSecretCompleteArn(scope, id, nameOrArn)
    : Secret.fromSecretPartialArn(scope, id, nameOrArn);
}
