/**
 * One function as all of them are deployed: Node 24 on arm64, a role of its own that starts with nothing but its log
 * (and the network interfaces that Lambda makes in its name), and a log that ends.
 */

import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ISecurityGroup } from 'aws-cdk-lib/aws-ec2';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Network } from './network.ts';

export interface KvmFunctionProps {
  /** The folder of its bundle. */
  readonly bundle: string;
  readonly description: string;
  readonly timeout: Duration;
  readonly memorySize: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Left out for a function that opens no session. */
  readonly placement?: { readonly network: Network; readonly securityGroup: ISecurityGroup };
}

export class KvmFunction extends Construct {
  readonly function: LambdaFunction;

  constructor(scope: Construct, id: string, props: KvmFunctionProps) {
    super(scope, id);
    const { placement } = props;
    const logGroup = new LogGroup(this, 'Log', {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    // Not CDK's default role: its managed policies allow writing to every log group of the account.
    const role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    logGroup.grantWrite(role);
    if (placement !== undefined) role.addToPolicy(networkInterfaces());

    this.function = new LambdaFunction(this, 'Function', {
      description: props.description,
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      code: Code.fromAsset(props.bundle),
      handler: 'index.handler',
      timeout: props.timeout,
      memorySize: props.memorySize,
      environment: { ...props.environment },
      role,
      logGroup,
      ...(placement === undefined
        ? {}
        : {
            vpc: placement.network.vpc,
            vpcSubnets: placement.network.subnets,
            securityGroups: [placement.securityGroup],
          }),
    });
  }
}

/** What Lambda needs to put a function into a VPC. EC2 checks most of these against no single resource. */
function networkInterfaces(): PolicyStatement {
  return new PolicyStatement({
    actions: [
      'ec2:CreateNetworkInterface',
      'ec2:DescribeNetworkInterfaces',
      'ec2:DescribeSubnets',
      'ec2:DeleteNetworkInterface',
      'ec2:AssignPrivateIpAddresses',
      'ec2:UnassignPrivateIpAddresses',
    ],
    resources: ['*'],
  });
}
