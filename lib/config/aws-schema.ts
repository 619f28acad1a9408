/**
 * The section that only the CDK app reads: where the functions stand in the network and how often the collector
 * runs. Everything is written out (ids, zones, networks) because synth looks nothing up and works offline.
 */
import { isIPv4 } from 'node:net';
import * as z from 'zod';
import { parseIpv4Cidr } from './cidr.ts';
import { byKey, text } from './field.ts';

const cidr = text.refine(
  (value) => parseIpv4Cidr(value) !== null,
  'must be an IPv4 network such as 10.20.0.0/16, without host bits',
);

/** /16 is the most that AWS gives a VPC; below /24 two zones of public and private subnets do not fit sensibly. */
const vpcCidr = cidr.refine((value) => {
  const parsed = parseIpv4Cidr(value);
  return parsed === null || (parsed.prefix >= 16 && parsed.prefix <= 24);
}, 'must be between /16 and /24');

const newVpc = z.strictObject({
  cidr: vpcCidr,
  customerGatewayIp: text.refine(isIPv4, 'must be the IPv4 address of the VPN device on premises'),
  routes: z.array(cidr).min(1, 'needs at least one network on premises'),
});

const existingVpc = z.strictObject({
  id: text.regex(/^vpc-[0-9a-f]{8,17}$/, 'must be a VPC id such as vpc-0123456789abcdef0'),
  cidr,
  subnetIds: z
    .array(text.regex(/^subnet-[0-9a-f]{8,17}$/, 'must be a subnet id such as subnet-0123456789abcdef0'))
    .min(1, 'needs at least one subnet'),
  availabilityZones: z.array(
    text.regex(/^[a-z]{2}(?:-[a-z]+)+-[0-9][a-z]$/, 'must be an availability zone such as eu-central-1a'),
  ),
});

export const awsSection = z.strictObject({
  vpc: byKey({ new: z.strictObject({ new: newVpc }), id: existingVpc }),
  onPremCidrs: z.array(cidr).min(1, 'needs at least one network on premises'),
  egress: z.enum(['nat', 'endpoints']).default('nat'),
  schedule: text
    .superRefine((expression, context) => {
      const fault = scheduleFault(expression);
      if (fault !== null) context.addIssue({ code: 'custom', message: fault });
    })
    .default('rate(5 minutes)'),
});

/** EventBridge Scheduler's recurring expressions: `rate(5 minutes)`, `cron(0 3 * * ? *)`. */
function scheduleFault(expression: string): string | null {
  const rate = /^rate\((\d+) (?:minute|hour|day)s?\)$/.exec(expression);
  if (rate !== null) return Number(rate[1]) > 0 ? null : 'must be a rate above 0';
  const cron = /^cron\(([^()]+)\)$/.exec(expression);
  if (cron === null) return 'must be rate(N minutes|hours|days) or cron(six fields)';
  const fields = (cron[1] ?? '').split(' ');
  if (fields.length !== 6 || !fields.every((field) => /^[0-9A-Z*?,/#-]+$/.test(field))) {
    return 'must be a cron expression of six fields: minutes hours day-of-month month day-of-week year';
  }
  const [, , dayOfMonth, , dayOfWeek] = fields;
  return dayOfMonth === '?' || dayOfWeek === '?' ? null : 'must have ? as day-of-month or as day-of-week';
}
