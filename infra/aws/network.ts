/**
 * Where the functions stand: a new VPC with a site-to-site VPN to the hosts, or an existing one by its ids. An existing
 * VPC's routes, NAT or endpoints are its owner's: nothing is added to it, since a second private endpoint for one
 * service could not be deployed.
 */

import { Annotations } from 'aws-cdk-lib';
import {
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpointAwsService,
  type IPeer,
  IpAddresses,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SubnetSelection,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { AwsConfig } from '../../lib/config/schema.ts';

type NewVpc = Extract<AwsConfig['vpc'], { new: unknown }>['new'];
type ExistingVpc = Extract<AwsConfig['vpc'], { id: unknown }>;

export class Network extends Construct {
  readonly vpc: IVpc;
  readonly subnets: SubnetSelection;
  /** Who answers for SQS and Secrets Manager on port 443. */
  readonly awsApis: IPeer;
  /** Null for an existing VPC. */
  readonly vpnConnectionId: string | null;

  constructor(scope: Construct, id: string, aws: AwsConfig) {
    super(scope, id);
    if ('id' in aws.vpc) {
      this.vpc = this.importVpc(aws.vpc);
      this.subnets = { subnets: this.vpc.privateSubnets };
      this.awsApis = aws.egress === 'nat' ? Peer.anyIpv4() : Peer.ipv4(aws.vpc.cidr);
      this.vpnConnectionId = null;
      return;
    }
    const vpc = this.createVpc(aws.vpc.new, aws.egress);
    this.vpc = vpc;
    this.subnets = { subnetType: privateSubnetType(aws.egress) };
    this.awsApis = aws.egress === 'nat' ? Peer.anyIpv4() : this.createEndpoints(vpc);
    this.vpnConnectionId = vpc.addVpnConnection('OnPremises', {
      ip: aws.vpc.new.customerGatewayIp,
      staticRoutes: [...aws.vpc.new.routes],
    }).vpnId;
  }

  private importVpc({ id, cidr, subnetIds, availabilityZones }: ExistingVpc): IVpc {
    Annotations.of(this).acknowledgeWarning(
      '@aws-cdk/aws-ec2:noSubnetRouteTableId',
      'no route is added to its subnets',
    );
    return Vpc.fromVpcAttributes(this, 'Vpc', {
      vpcId: id,
      vpcCidrBlock: cidr,
      availabilityZones: [...availabilityZones],
      privateSubnetIds: [...subnetIds],
    });
  }

  private createVpc({ cidr }: NewVpc, egress: AwsConfig['egress']): IVpc {
    const subnetType = privateSubnetType(egress);
    const subnets = [{ name: 'functions', subnetType, cidrMask: 26 }];
    const vpc = new Vpc(this, 'Vpc', {
      ipAddresses: IpAddresses.cidr(cidr),
      maxAzs: 2,
      // One: when its zone fails, creates wait in the queue and the hosts run on.
      natGateways: egress === 'nat' ? 1 : 0,
      subnetConfiguration:
        egress === 'nat'
          ? [...subnets, { name: 'nat', subnetType: SubnetType.PUBLIC, cidrMask: 28 }]
          : subnets,
      vpnGateway: true,
      vpnRoutePropagation: [{ subnetType }],
      // Free, and keeps images on S3 off the NAT gateway, which charges by the byte.
      gatewayEndpoints: { S3: { service: GatewayVpcEndpointAwsService.S3, subnets: [{ subnetType }] } },
      // Nothing uses the default group; emptying it would take a function with rights over every group.
      restrictDefaultSecurityGroup: false,
    });
    // CDK declares Vpc an IVpc, but was not compiled with exactOptionalPropertyTypes.
    return vpc as IVpc;
  }

  /** The two services that the functions call. Logs and metrics leave a Lambda without a way of their own. */
  private createEndpoints(vpc: IVpc): IPeer {
    const group = new SecurityGroup(this, 'Endpoints', {
      vpc,
      description: 'SQS and Secrets Manager inside the VPC',
      allowAllOutbound: false,
    });
    group.addIngressRule(Peer.ipv4(vpc.vpcCidrBlock), Port.tcp(443), 'functions');
    const options = {
      securityGroups: [group],
      open: false,
      subnets: { subnetType: SubnetType.PRIVATE_ISOLATED },
    };
    vpc.addInterfaceEndpoint('Sqs', { service: InterfaceVpcEndpointAwsService.SQS, ...options });
    vpc.addInterfaceEndpoint('SecretsManager', {
      service: InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
      ...options,
    });
    return group;
  }
}

function privateSubnetType(egress: AwsConfig['egress']): SubnetType {
  return egress === 'nat' ? SubnetType.PRIVATE_WITH_EGRESS : SubnetType.PRIVATE_ISOLATED;
}
