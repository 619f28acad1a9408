import { describe, expect, it } from 'vitest';
import { type ClockReading, judgeClock } from '../../../../lib/kvm/doctor/clock-check.ts';
import { fault, findingOfError, fine } from '../../../../lib/kvm/doctor/finding.ts';
import { HostReport } from '../../../../lib/kvm/doctor/host-report.ts';
import { judgePool, type PoolFacts } from '../../../../lib/kvm/doctor/pool-check.ts';
import { judgeTransports, type WayAttempt } from '../../../../lib/kvm/doctor/transport-check.ts';
import { HOST_CHECKS } from '../../../../lib/provider/host-health.ts';
import { SshError, type SshErrorReason } from '../../../../lib/ssh/ssh-error.ts';

const GIB = 1024 ** 3;

describe('a report', () => {
  const empty = () => new HostReport('kvm-a', () => 0);

  it('has every check, also when nothing came of any', () => {
    const { ok, checks } = empty().build();

    expect(ok).toBe(false);
    expect(checks.map(({ name }) => name)).toEqual(HOST_CHECKS);
    expect(new Set(checks.map(({ detail }) => detail))).toEqual(
      new Set(['not checked: there was no time left']),
    );
  });

  it('names the first failure on the way to what was not checked', () => {
    const report = empty();
    report.record('tcp', fine('connected'), 1);
    report.record('ssh-handshake', fault('silence', 'wait'), 2.4);

    const { checks } = report.build();

    expect(checks.slice(0, 2)).toEqual([
      { name: 'tcp', ok: true, detail: 'connected', ms: 1 },
      { name: 'ssh-handshake', ok: false, detail: 'silence. To do: wait', ms: 2 },
    ]);
    for (const { detail } of checks.slice(2)) expect(detail).toBe('not checked: it needs ssh-handshake');
  });

  it('takes what a check throws for its finding', async () => {
    const report = empty();

    await report.run('pool', async () => {
      throw new RangeError('odd');
    });

    expect(report.build().checks.find(({ name }) => name === 'pool')?.detail).toMatch(
      /^the check itself failed: odd/,
    );
    expect(findingOfError('text')).toMatchObject({ ok: false, found: 'the check itself failed: text' });
  });
});

describe('a pool', () => {
  const pool: PoolFacts = {
    name: 'default',
    type: 'dir',
    targetPath: '/images',
    state: 2,
    capacityBytes: 100 * GIB,
    availableBytes: 50 * GIB,
  };

  it.each([
    ['runs', {}, true, /50\.0 of 100\.0 GiB free$/],
    ['is degraded', { state: 3 }, true, /free$/],
    ['is a netfs', { type: 'netfs' }, true, /netfs/],
    ['has 1 GiB left', { availableBytes: GIB }, true, /1\.0 of/],
    ['has less', { availableBytes: GIB - 1 }, false, /is full/],
    ['is inactive', { state: 0 }, false, /is not active/],
    ['is being built', { state: 1 }, false, /still being built/],
    ['is inaccessible', { state: 4 }, false, /is not accessible/],
    ['is in a state of the future', { state: 9 }, false, /in state 9/],
    ['is made of logical volumes', { type: 'logical' }, false, /of type logical/],
    ['is made of disks', { type: 'rbd', targetPath: null }, false, /of type rbd/],
    ['has no directory', { targetPath: null }, false, /of type dir/],
  ] as const)('that %s', (_what, part, ok, found) => {
    expect(judgePool({ ...pool, ...part })).toMatchObject({ ok, found: expect.stringMatching(found) });
  });
});

describe('a clock', () => {
  const reading: ClockReading = { sentAt: 100_000, answeredAt: 100_200, hostTime: 100_100, poolType: 'dir' };

  it.each([
    ['shows the same', {}, true, 'the host’s clock agrees within 0.10 s'],
    [
      'differs by less than can be told',
      { hostTime: 100_200 },
      true,
      'the host’s clock agrees within 0.10 s',
    ],
    ['is a little ahead', { hostTime: 102_100 }, true, 'the host’s clock is 2.00 s ahead (± 0.10 s)'],
    ['is a little behind', { hostTime: 98_100 }, true, 'the host’s clock is 2.00 s behind (± 0.10 s)'],
    ['may just be within bounds', { hostTime: 130_200 }, true, 'the host’s clock is 30 s ahead (± 0.10 s)'],
    ['is out of bounds', { hostTime: 130_201 }, false, 'the host’s clock is 30 s ahead (± 0.10 s)'],
    [
      'was read over a slow line',
      { answeredAt: 160_000, hostTime: 190_000 },
      true,
      'the host’s clock is 60 s ahead (± 30 s)',
    ],
    [
      'is a file server’s',
      { poolType: 'netfs' },
      true,
      'the clock of the pool’s file server agrees within 0.10 s',
    ],
    [
      'is not shown',
      { hostTime: null },
      true,
      'not checked: this daemon does not show when a volume was made',
    ],
    // Ours was set back in between: no uncertainty is negative.
    [
      'was read by a clock set back',
      { answeredAt: 99_000, hostTime: 99_500 },
      true,
      'the host’s clock agrees within 0.00 s',
    ],
  ] as const)('that %s', (_what, part, ok, found) => {
    expect(judgeClock({ ...reading, ...part })).toMatchObject({ ok, found });
  });
});

describe('the transports', () => {
  const target = {
    address: 'kvm-a',
    port: 22,
    user: 'kvmfn',
    socketPath: '/run/libvirt/libvirt-sock',
    transport: 'auto',
  } as const;
  const attempt = (
    transport: 'socket' | 'helper',
    refusal: SshErrorReason | null,
    {
      name = transport,
      isConfigured = true,
      retryable,
    }: { name?: string; isConfigured?: boolean; retryable?: boolean } = {},
  ): WayAttempt => {
    const times = { way: { transport, name, isConfigured }, openMs: 1, sessionMs: 1 };
    if (refusal === null) return { ...times, outcome: 'no-session', error: new Error('unused') };
    const error = new SshError(refusal, `${name} said no`, retryable === undefined ? {} : { retryable });
    return { ...times, outcome: 'refused', error, isStarted: retryable !== undefined };
  };
  const judge = (...attempts: WayAttempt[]) => judgeTransports(attempts, target);

  it('say what sshd needs when its policy forbids the forward', () => {
    const finding = judge(attempt('socket', 'forward-prohibited'), attempt('helper', 'helper-failed'));

    expect(finding).toMatchObject({
      ok: false,
      found: 'socket is refused (sshd’s policy forbids the forward); helper is refused (helper said no)',
      remedy:
        'set AllowTcpForwarding local, AllowStreamLocalForwarding local and ' +
        'PermitOpen [/run/libvirt/libvirt-sock]:* for kvmfn in sshd_config',
    });
  });

  it('say what a key needs when only the helper is configured', () => {
    const finding = judge(
      attempt('socket', 'socket-unreachable', { isConfigured: false }),
      attempt('helper', 'helper-failed'),
    );

    expect(finding).toMatchObject({
      remedy:
        'set a key bound to it by command="virt-ssh-helper qemu:///system",restrict in ~kvmfn/.ssh/authorized_keys',
    });
  });

  it('say that no daemon runs when the helper ran and found none', () => {
    const finding = judge(
      attempt('socket', 'socket-unreachable'),
      attempt('helper', 'helper-failed', { retryable: true }),
    );

    expect(finding).toMatchObject({
      remedy: 'start the daemon on the host (systemctl enable --now libvirtd)',
    });
  });

  it('say that the helper is missing when it was started in vain', () => {
    const finding = judge(
      attempt('socket', 'socket-unreachable', { isConfigured: false }),
      attempt('helper', 'helper-failed', { retryable: false }),
    );

    expect(finding).toMatchObject({ remedy: expect.stringContaining('install virt-ssh-helper') });
  });

  it('speak of the socket that leads somewhere, not of the other one', () => {
    const finding = judge(
      attempt('socket', 'socket-unreachable', { name: 'classic' }),
      attempt('socket', null, { name: 'modular' }),
      attempt('helper', null),
    );

    expect(finding).toEqual(fine('modular is used; helper works too'));
  });
});
