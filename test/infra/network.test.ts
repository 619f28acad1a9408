import { Match, type Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { resourcesOf, synthesise, theResource } from './synthesised-stack.ts';

const S3_IMAGE = ['https://example.com/', 'https://images.s3.eu-central-1.amazonaws.com/'] as const;
const ENDPOINTS = ['egress: nat', 'egress: endpoints'] as const;

const rule = z.object({
  IpProtocol: z.literal('tcp'),
  FromPort: z.number(),
  ToPort: z.number(),
  CidrIp: z.string().optional(),
  DestinationSecurityGroupId: z
    .object({ 'Fn::GetAtt': z.tuple([z.string(), z.literal('GroupId')]) })
    .optional(),
});
const rules = z.array(rule).default([]);

/** What a group lets out, as `destination:port`; rules that lead to another group are resources of their own. */
function egress(template: Template, prefix: string): string[] {
  const { Properties } = theResource(template, 'AWS::EC2::SecurityGroup', prefix);
  const separate = resourcesOf(template, 'AWS::EC2::SecurityGroupEgress', prefix);
  return [
    ...rules.parse(Properties['SecurityGroupEgress']),
    ...separate.map((found) => rule.parse(found.Properties)),
  ]
    .map(({ CidrIp, DestinationSecurityGroupId, FromPort, ToPort }) => {
      expect(ToPort).toBe(FromPort);
      // Without the hash that CDK ends a logical id with.
      const group = DestinationSecurityGroupId?.['Fn::GetAtt'][0].slice(0, -8);
      return `${CidrIp ?? group}:${FromPort}`;
    })
    .sort();
}

function routesToNat(template: Template): unknown[] {
  return resourcesOf(template, 'AWS::EC2::Route').filter(({ Properties }) => 'NatGatewayId' in Properties);
}

describe('a new VPC', () => {
  let template: Template;
  beforeAll(() => {
    template = synthesise();
  });

  it('is linked to the premises by a VPN with static routes, which the functions’ subnets learn', () => {
    template.hasResourceProperties('AWS::EC2::VPC', { CidrBlock: '10.90.0.0/16' });
    template.hasResourceProperties('AWS::EC2::CustomerGateway', { IpAddress: '203.0.113.10' });
    template.hasResourceProperties('AWS::EC2::VPNConnection', { StaticRoutesOnly: true });
    template.hasResourceProperties('AWS::EC2::VPNConnectionRoute', { DestinationCidrBlock: '10.20.0.0/16' });

    const propagation = theResource(template, 'AWS::EC2::VPNGatewayRoutePropagation').Properties;
    expect(JSON.stringify(propagation['RouteTableIds']).match(/functionsSubnet\dRouteTable/g)).toHaveLength(
      2,
    );
  });

  it('LM-10: lets the functions reach SQS and Secrets Manager through NAT', () => {
    expect(routesToNat(template)).toHaveLength(2);
    expect(egress(template, 'SecurityGroupsApi')).toContain('0.0.0.0/0:443');
    expect(egress(template, 'SecurityGroupsWorker')).toContain('0.0.0.0/0:443');
  });

  it('LM-10: lets the functions reach each host at its SSH port and nothing else on premises', () => {
    expect(egress(template, 'SecurityGroupsApi')).toEqual([
      '0.0.0.0/0:443',
      '10.20.0.11/32:22',
      '10.20.0.12/32:2222',
    ]);
  });

  it('lets nothing in', () => {
    for (const prefix of ['SecurityGroupsApi', 'SecurityGroupsWorker']) {
      expect(theResource(template, 'AWS::EC2::SecurityGroup', prefix).Properties).not.toHaveProperty(
        'SecurityGroupIngress',
      );
    }
    expect(resourcesOf(template, 'AWS::EC2::SecurityGroupIngress')).toEqual([]);
  });

  it('puts the worker into a group of its own, the other functions into the API’s, the fallback into none', () => {
    const groupOf = (name: string) =>
      JSON.stringify(
        theResource(template, 'AWS::Lambda::Function', `${name}Function`).Properties['VpcConfig'],
      );

    for (const name of ['create', 'get', 'list', 'delete', 'gc', 'doctor']) {
      expect(groupOf(name)).toContain('SecurityGroupsApi');
      expect(groupOf(name)).not.toContain('SecurityGroupsWorker');
      expect(groupOf(name).match(/functionsSubnet/g)).toHaveLength(2);
    }
    expect(groupOf('worker')).toContain('SecurityGroupsWorker');
    expect(groupOf('worker')).not.toContain('SecurityGroupsApi');
    expect(groupOf('notfound')).toBeUndefined();
  });

  it('lets only the worker reach where the images come from', () => {
    const withMirror = synthesise([['https://example.com/', 'http://mirror.example.com:8080/']]);

    expect(egress(withMirror, 'SecurityGroupsWorker')).toContain('0.0.0.0/0:8080');
    expect(egress(withMirror, 'SecurityGroupsApi')).not.toContain('0.0.0.0/0:8080');
  });

  it('lets the worker reach an image server on premises at its address only', () => {
    const onPremises = synthesise([['https://example.com/', 'http://10.20.0.5:8080/']]);

    expect(egress(onPremises, 'SecurityGroupsWorker')).toContain('10.20.0.5/32:8080');
    expect(egress(onPremises, 'SecurityGroupsWorker')).not.toContain('0.0.0.0/0:8080');
  });

  it('lets the functions reach hosts given by name anywhere on premises, at their port', () => {
    const named = synthesise([
      ['address: 10.20.0.12, port: 2222', 'address: kvm-b.example.lan, port: 2222'],
      ['[10.20.0.12]:2222', '[kvm-b.example.lan]:2222'],
    ]);

    expect(egress(named, 'SecurityGroupsApi')).toEqual([
      '0.0.0.0/0:443',
      '10.20.0.0/16:2222',
      '10.20.0.11/32:22',
    ]);
  });
});

describe('a new VPC without NAT', () => {
  let template: Template;
  beforeAll(() => {
    template = synthesise([ENDPOINTS, S3_IMAGE]);
  });

  it('has no way to the internet at all', () => {
    for (const type of ['AWS::EC2::NatGateway', 'AWS::EC2::InternetGateway', 'AWS::EC2::EIP']) {
      template.resourceCountIs(type, 0);
    }
  });

  it('LM-10: has SQS and Secrets Manager inside, under their usual names, and S3 by a gateway', () => {
    for (const service of ['sqs', 'secretsmanager']) {
      template.hasResourceProperties('AWS::EC2::VPCEndpoint', {
        VpcEndpointType: 'Interface',
        PrivateDnsEnabled: true,
        ServiceName: { 'Fn::Join': ['', Match.arrayWith([Match.stringLikeRegexp(`\\.${service}$`)])] },
        SubnetIds: [Match.anyValue(), Match.anyValue()],
      });
    }
    template.hasResourceProperties('AWS::EC2::VPCEndpoint', { VpcEndpointType: 'Gateway' });
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 3);
    template.hasResourceProperties('AWS::EC2::SecurityGroup', {
      GroupDescription: Match.stringLikeRegexp('SQS and Secrets Manager'),
      SecurityGroupIngress: [Match.objectLike({ FromPort: 443, ToPort: 443, IpProtocol: 'tcp' })],
    });
  });

  it('lets the API functions reach those endpoints and the hosts, the worker also S3', () => {
    const shared = ['10.20.0.11/32:22', '10.20.0.12/32:2222', 'NetworkEndpoints:443'];

    expect(egress(template, 'SecurityGroupsApi')).toEqual(shared);
    expect(egress(template, 'SecurityGroupsWorker')).toEqual(['0.0.0.0/0:443', ...shared]);
  });

  it('still has the VPN, and its routes in the functions’ subnets', () => {
    template.resourceCountIs('AWS::EC2::VPNConnection', 1);
    const propagation = theResource(template, 'AWS::EC2::VPNGatewayRoutePropagation').Properties;
    expect(JSON.stringify(propagation['RouteTableIds']).match(/functionsSubnet\dRouteTable/g)).toHaveLength(
      2,
    );
  });
});

describe('an existing VPC', () => {
  const existing = [
    'vpc: { new: { cidr: 10.90.0.0/16, customerGatewayIp: 203.0.113.10, routes: [10.20.0.0/16] } }',
    'vpc: { id: vpc-0123456789abcdef0, cidr: 10.0.0.0/16, subnetIds: [subnet-01234567, subnet-89abcdef], availabilityZones: [eu-central-1a, eu-central-1b] }',
  ] as const;

  it('gets nothing added but the functions and their groups', () => {
    const template = synthesise([existing]);

    for (const type of ['VPC', 'Subnet', 'VPNConnection', 'NatGateway', 'VPCEndpoint', 'Route']) {
      template.resourceCountIs(`AWS::EC2::${type}`, 0);
    }
    template.hasResourceProperties('AWS::EC2::SecurityGroup', { VpcId: 'vpc-0123456789abcdef0' });
    const { VpcConfig } = theResource(template, 'AWS::Lambda::Function', 'createFunction').Properties;
    expect(VpcConfig).toMatchObject({ SubnetIds: ['subnet-01234567', 'subnet-89abcdef'] });
    expect(template.findOutputs('VpnConnectionId')).toEqual({});
  });

  it('is taken to have its endpoints inside when it has no NAT', () => {
    const template = synthesise([existing, ENDPOINTS, S3_IMAGE]);

    expect(egress(template, 'SecurityGroupsApi')).toEqual([
      '10.0.0.0/16:443',
      '10.20.0.11/32:22',
      '10.20.0.12/32:2222',
    ]);
  });
});
