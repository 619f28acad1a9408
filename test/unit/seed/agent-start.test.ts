/**
 * The start of the agent as a guest runs it: the runcmd of what stands on the seed, made into a script by cloud-init's own
 * code, against a systemctl that behaves like the one of each distribution. A script that ends with another status than 0
 * makes cloud-init call the whole boot failed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

/** What `systemctl start UNIT` answers for each unit that there is; a static unit can be started and not enabled. */
type Units = Readonly<Record<string, 'static' | 'enabled' | 'running' | 'masked' | 'failing'>>;

const GUESTS: readonly { readonly name: string; readonly units: Units; readonly started: string | null }[] = [
  {
    name: 'Debian, whose unit is static',
    units: { 'qemu-guest-agent': 'static' },
    started: 'qemu-guest-agent',
  },
  { name: 'Ubuntu', units: { 'qemu-guest-agent': 'enabled' }, started: 'qemu-guest-agent' },
  {
    name: 'Fedora and RHEL, where it runs already',
    units: { 'qemu-guest-agent': 'running' },
    started: 'qemu-guest-agent',
  },
  { name: 'SUSE, whose unit has another name', units: { 'qemu-ga': 'enabled' }, started: 'qemu-ga' },
  { name: 'SUSE with a static unit', units: { 'qemu-ga': 'static' }, started: 'qemu-ga' },
  { name: 'a guest without the agent', units: {}, started: null },
  { name: 'a guest that masked it', units: { 'qemu-guest-agent': 'masked' }, started: null },
  { name: 'a guest without its channel', units: { 'qemu-guest-agent': 'failing' }, started: null },
];

const FAKE_SYSTEMCTL = `#!/bin/sh
echo "$*" >>"$SYSTEMCTL_LOG"
verb=$1 unit=\${2%.service}
state=$(sed -n "s/^$unit=//p" "$SYSTEMCTL_UNITS")
case "$verb:$state" in
  *:) echo "Failed to $verb $unit.service: Unit $unit.service not found." >&2; exit 5 ;;
  *:masked) echo "Failed to $verb $unit.service: Unit $unit.service is masked." >&2; exit 1 ;;
  start:failing) echo "A dependency job for $unit.service failed." >&2; exit 1 ;;
  start:*) echo "started $unit" >>"$SYSTEMCTL_LOG" ;;
  enable:static) echo "The unit files have no installation config." >&2; exit 1 ;;
  enable:*) ;;
  *) exit 1 ;;
esac
`;

describe.skipIf(!oracleIsInstalled)('the start of the agent', () => {
  const oracle = new Oracle();
  const folder = mkdtempSync(join(tmpdir(), 'kvmfn-agent-'));
  const [log, table] = [join(folder, 'log'), join(folder, 'units')];
  const systemctl = join(folder, 'systemctl');
  // Nothing else on the PATH: this machine's own systemctl must not be asked.
  for (const tool of ['sh', 'sed', 'cat', 'false', 'true']) symlinkSync(`/bin/${tool}`, join(folder, tool));
  afterAll(() => {
    oracle.close();
    rmSync(folder, { recursive: true });
  });

  async function runOn(units: Units | null, userData: string) {
    const prepared = prepareUserData(Buffer.from(userData), '');
    const script = await oracle.runcmdScript(prepared.userData);
    rmSync(systemctl, { force: true });
    if (units !== null) writeFileSync(systemctl, FAKE_SYSTEMCTL, { mode: 0o755 });
    writeFileSync(
      table,
      Object.entries(units ?? {})
        .map(([unit, state]) => `${unit}=${state}\n`)
        .join(''),
    );
    writeFileSync(log, '');
    const { status } = spawnSync('/bin/sh', ['-c', script], {
      env: { PATH: folder, SYSTEMCTL_LOG: log, SYSTEMCTL_UNITS: table },
    });
    const calls = readFileSync(log, 'utf8').split('\n');
    return { status, calls, started: calls.find((line) => line.startsWith('started '))?.slice(8) ?? null };
  }

  it.each(GUESTS)('UD-16: succeeds on $name', async ({ units, started }) => {
    const run = await runOn(units, '#cloud-config\nhostname: h\n');

    expect(run).toMatchObject({ status: 0, started });
    expect(run.calls.filter((call) => call.startsWith('enable'))).toEqual([]);
  });

  it('UD-16: succeeds on a guest without systemd', async () => {
    expect(await runOn(null, '#cloud-config\nhostname: h\n')).toMatchObject({ status: 0, started: null });
  });

  it.each([
    ['a cloud-config', '#cloud-config\nruncmd: [[cat, /dev/null], "exit_with() { return 7; }; exit_with"]\n'],
    [
      'a template',
      '## template: jinja\n#cloud-config\nruncmd: [[cat, /dev/null], "exit_with() { return 7; }; exit_with"]\n',
    ],
  ])('does not hide that the last command of %s failed', async (_kind, userData) => {
    const run = await runOn({ 'qemu-guest-agent': 'static' }, userData);

    expect(run).toMatchObject({ status: 7, started: 'qemu-guest-agent' });
  });

  it('is not kept away by a command that fails', async () => {
    const run = await runOn({ 'qemu-guest-agent': 'static' }, '#cloud-config\nruncmd: ["false", "true"]\n');

    expect(run).toMatchObject({ status: 0, started: 'qemu-guest-agent' });
  });
});
