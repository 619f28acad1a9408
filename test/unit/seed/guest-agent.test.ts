import { describe, expect, it } from 'vitest';
import { AGENT_COMMAND, startsAgent } from '../../../lib/seed/guest-agent.ts';

describe('startsAgent', () => {
  it('knows the command that this library adds', () => {
    expect(startsAgent(AGENT_COMMAND)).toBe(true);
  });

  it.each([
    'systemctl start qemu-guest-agent',
    'systemctl restart qemu-guest-agent.service',
    'systemctl --no-block start qemu-guest-agent',
    'systemctl start ssh qemu-guest-agent cron',
    'systemctl enable --now qemu-guest-agent',
    'systemctl --now enable qemu-ga.service',
    'systemctl enable qemu-guest-agent --now',
    '/usr/bin/systemctl start qemu-ga',
    'sudo systemctl start qemu-guest-agent',
    'apt-get install -y x && systemctl start qemu-guest-agent || true',
    'bash -c systemctl start qemu-guest-agent',
    'set -e\nsystemctl start qemu-guest-agent\n',
    'service qemu-guest-agent start',
    'rc-service qemu-guest-agent start',
    '/etc/init.d/qemu-guest-agent restart',
  ])('takes %j for a start', (command) => {
    expect(startsAgent(command)).toBe(true);
  });

  it.each([
    '',
    'systemctl enable qemu-guest-agent',
    'systemctl stop qemu-guest-agent',
    'systemctl disable --now qemu-guest-agent',
    'systemctl mask --now qemu-guest-agent',
    'systemctl status qemu-guest-agent',
    'systemctl start qemu-guest-agent-helper',
    'systemctl start my-qemu-ga',
    'systemctl qemu-ga start',
    'qemu-ga start',
    'xqemu-ga start',
    'systemctl start iscsid; echo qemu-guest-agent',
    'echo systemctl start qemu-guest-agent',
    'apt-get install qemu-guest-agent',
    'service qemu-guest-agent stop',
    '# systemctl start qemu-guest-agent',
  ])('takes %j for none', (command) => {
    expect(startsAgent(command)).toBe(false);
  });
});
