/**
 * What the functions may reach, and nothing more: the hosts' SSH ports and the AWS APIs; the worker also the places its
 * images come from. No group lets anything in: nobody connects to a function.
 */
import { isIP, isIPv4 } from 'node:net';
import { type IPeer, Peer, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { AwsConfig, Config } from '../../lib/config/schema.ts';
import type { Network } from './network.ts';

export interface HostSecurityGroupsProps {
  readonly network: Network;
  readonly config: Pick<Config, 'hosts' | 'images'>;
  readonly aws: AwsConfig;
}

interface Destination {
  readonly peer: IPeer;
  readonly port: number;
  readonly what: string;
}

export class HostSecurityGroups extends Construct {
  /** create, get, list, delete and gc. */
  readonly api: SecurityGroup;
  readonly worker: SecurityGroup;

  constructor(scope: Construct, id: string, { network, config, aws }: HostSecurityGroupsProps) {
    super(scope, id);
    const shared: Destination[] = [
      { peer: network.awsApis, port: 443, what: 'SQS and Secrets Manager' },
      ...config.hosts.flatMap((host) => hostDestinations(host, aws)),
    ];
    const images = Object.values(config.images).flatMap(({ url }) => imageDestinations(new URL(url), aws));
    this.api = this.createGroup('Api', 'kvm-functions: functions that answer callers', network, shared);
    this.worker = this.createGroup('Worker', 'kvm-functions: the worker', network, [...shared, ...images]);
  }

  private createGroup(
    id: string,
    description: string,
    { vpc }: Network,
    destinations: Destination[],
  ): SecurityGroup {
    const group = new SecurityGroup(this, id, { vpc, description, allowAllOutbound: false });
    for (const { peer, port, what } of distinct(destinations))
      group.addEgressRule(peer, Port.tcp(port), what);
    return group;
  }
}

/** A host given by name may have any address on premises. */
function hostDestinations({ name, address, port }: Config['hosts'][number], aws: AwsConfig): Destination[] {
  if (isIP(address) !== 0) return [{ peer: addressPeer(address), port, what: `SSH to ${name}` }];
  return aws.onPremCidrs.map((cidr) => ({ peer: Peer.ipv4(cidr), port, what: 'SSH to hosts given by name' }));
}

/**
 * An image's own address when the URL has one; else, since a name has no fixed address, its port anywhere. Without NAT
 * "anywhere" is what the routes leave: the S3 gateway endpoint and the premises.
 */
function imageDestinations(url: URL, aws: AwsConfig): Destination[] {
  const port = Number(url.port) || (url.protocol === 'http:' ? 80 : 443);
  const address = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(address) !== 0) return [{ peer: addressPeer(address), port, what: 'images' }];
  const names = [{ peer: Peer.anyIpv4(), port, what: 'images' }];
  // Mirrors redirect from http to https.
  return aws.egress === 'nat' && port === 80
    ? [...names, { peer: Peer.anyIpv4(), port: 443, what: 'images' }]
    : names;
}

function addressPeer(address: string): IPeer {
  return isIPv4(address) ? Peer.ipv4(`${address}/32`) : Peer.ipv6(`${address}/128`);
}

/** Of several rules for one peer and port CloudFormation takes only the first. */
function distinct(destinations: readonly Destination[]): Destination[] {
  const byRule = new Map<string, Destination>();
  for (const destination of destinations) {
    const key = `${destination.peer.uniqueId} ${destination.port}`;
    if (!byRule.has(key)) byRule.set(key, destination);
  }
  return [...byRule.values()];
}
