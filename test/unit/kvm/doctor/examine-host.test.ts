/** Each thing that can be wrong with a host, provoked on an embedded one; and nothing that an examination leaves there. */
import { describe, expect, it } from 'vitest';
import { generateSshKey } from '../../../../infra/local/hypervisor/ssh-key.ts';
import { HOST_CHECKS, type HostCheckName } from '../../../../lib/provider/host-health.ts';
import { parseKnownHosts } from '../../../../lib/ssh/known-hosts.ts';
import { startTcpServer } from '../../ssh/tcp-server.ts';
import { type Examination, startExaminedHost, untilLeft } from './examined-host.ts';

const after = (name: HostCheckName) => HOST_CHECKS.slice(HOST_CHECKS.indexOf(name) + 1);

describe('a host that is well', () => {
  it('passes every check in its order, each with what was found and how long it took', async () => {
    await using host = await startExaminedHost();

    const health = await host.examine();

    expect(health.checks.map(({ name }) => name)).toEqual(HOST_CHECKS);
    expect(health).toMatchObject({ host: 'kvm-a', ok: true, faults: {}, unchecked: [] });
    expect(health.check('libvirt-version').detail).toBe('libvirt 9.0.0, QEMU 7.2.22');
    expect(health.check('virt-type').detail).toBe('q35 on x86_64 with kvm, CPU mode host-passthrough');
    expect(health.check('pool').detail).toMatch(/^pool default \(dir, .*\): 1024\.0 of 1024\.0 GiB free$/);
    expect(health.check('bridge').detail).toMatch(/^br0 is there \(/);
    expect(health.check('clock').detail).toMatch(/^the host’s clock agrees within /);
    for (const { detail, ms } of health.checks) {
      expect(detail).not.toBe('');
      expect(Number.isInteger(ms)).toBe(true);
    }
  });

  it('is left as it was: no volume, no session, no connection', async () => {
    await using host = await startExaminedHost();
    const before = host.embedded.state.files.paths;

    await host.examine();
    await untilLeft(host.embedded);

    expect(host.embedded.state.files.paths).toEqual(before);
  });

  it('passes when examined by many at once', async () => {
    await using host = await startExaminedHost();

    const all = await Promise.all(Array.from({ length: 8 }, () => host.examine()));

    for (const health of all) expect(health.faults).toEqual({});
    expect(host.embedded.state.files.paths).toEqual([]);
  });

  it('passes with emulation where that is configured', async () => {
    await using host = await startExaminedHost({ virtTypes: ['qemu'] });

    const health = await host.examine({ host: { virtType: 'qemu' } });

    expect(health.faults).toEqual({});
    expect(health.check('virt-type').detail).toContain('CPU mode maximum');
  });

  it('passes where polkit lets the account in', async () => {
    await using host = await startExaminedHost({ auth: 'polkit' });

    expect((await host.examine()).faults).toEqual({});
  });
});

describe('the way to a host', () => {
  /** One fault, everything before it fine, everything behind it not looked at. */
  function expectOnly(health: Examination, name: HostCheckName, detail: RegExp): void {
    expect(health.faults).toEqual({ [name]: expect.stringMatching(detail) });
    expect(health.unchecked).toEqual(after(name));
    expect(health.ok).toBe(false);
    for (const unchecked of health.unchecked) {
      expect(health.check(unchecked)).toMatchObject({ detail: `not checked: it needs ${name}`, ms: 0 });
    }
  }

  it('ends at a port where nobody listens', async () => {
    const host = await startExaminedHost();
    await host.embedded.close();

    expectOnly(await host.examine(), 'tcp', /ECONNREFUSED.*To do: start sshd on the host/);
  });

  it('ends at a name that does not resolve', async () => {
    await using host = await startExaminedHost();
    const address = 'no-such-host.invalid';
    const knownHosts = parseKnownHosts(host.embedded.knownHosts.replace('127.0.0.1', address));

    const health = await host.examine({ target: { address, knownHosts } });

    expectOnly(health, 'tcp', /To do: make the name no-such-host\.invalid resolve/);
  });

  it('ends at a server that speaks something else', async () => {
    await using host = await startExaminedHost();
    const server = await startTcpServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    const { port } = server;
    const knownHosts = parseKnownHosts(host.embedded.knownHosts.replace(/:\d+/, `:${port}`));

    const health = await host.examine({ target: { port, knownHosts } });
    await server.close();

    expectOnly(health, 'ssh-handshake', /HTTP\/1\.1 400.*To do: /);
  });

  it('ends at a host key that is not on file, and names it with the way to verify it', async () => {
    await using host = await startExaminedHost();

    const health = await host.examine({ target: { knownHosts: parseKnownHosts('') } });

    expectOnly(
      health,
      'host-key',
      /presents ssh-ed25519 SHA256:.*no usable key.*ssh-keygen -lf.*add what `ssh-keyscan -p \d+ 127\.0\.0\.1`/,
    );
  });

  it('ends at a host key that is another one than on file', async () => {
    await using host = await startExaminedHost();
    const other = host.embedded.knownHosts.replace(/ssh-ed25519 .*/, generateSshKey().publicKey);

    const health = await host.examine({ target: { knownHosts: parseKnownHosts(other) } });

    expectOnly(
      health,
      'host-key',
      /presented SHA256:.*but known_hosts has.*replace the line.*trust none of it/,
    );
    await untilLeft(host.embedded);
  });

  it('ends at a revoked host key', async () => {
    await using host = await startExaminedHost();
    const line = host.embedded.knownHosts;

    const health = await host.examine({
      target: { knownHosts: parseKnownHosts(`${line}\n@revoked ${line}`) },
    });

    expectOnly(health, 'host-key', /revoked.*To do: give the host a new key/);
  });

  it('ends at a key that the account does not know, and never shows it', async () => {
    await using host = await startExaminedHost();
    const { privateKey } = generateSshKey();

    const health = await host.examine({ target: { privateKey } });

    expectOnly(health, 'authentication', /kvmfn is not let in with the key SHA256:.*authorized_keys/);
    expect(JSON.stringify(health)).not.toContain('PRIVATE');
    await untilLeft(host.embedded);
  });

  it('ends at a user that does not exist', async () => {
    await using host = await startExaminedHost();

    expectOnly(
      await host.examine({ target: { user: 'nobody-here' } }),
      'authentication',
      /nobody-here is not let in .* ~nobody-here\/\.ssh/,
    );
  });

  it('ends at an account that may use neither way', async () => {
    await using host = await startExaminedHost({ access: 'forward' });

    const health = await host.examine({ target: { socketPath: '/run/other/sock' } });

    expectOnly(
      health,
      'transport',
      /the socket \/run\/other\/sock is refused.*virt-ssh-helper is refused.*To do: run `sudo -u kvmfn test -w \/run\/other\/sock/,
    );
  });

  it('ends at a helper that finds no daemon, whose words say so', async () => {
    await using host = await startExaminedHost();
    host.embedded.libvirt.isListening = false;

    expectOnly(
      await host.examine(),
      'transport',
      /Connection refused.*To do: start the daemon on the host \(systemctl enable --now libvirtd\)/,
    );
  });

  it('ends at the transport that is configured when only the other one works, and says which to configure', async () => {
    await using helperOnly = await startExaminedHost({ access: 'helper' });
    await using socketOnly = await startExaminedHost({ access: 'forward' });

    expectOnly(
      await helperOnly.examine({ target: { transport: 'socket' } }),
      'transport',
      /virt-ssh-helper works\. To do: configure `transport: helper`/,
    );
    expectOnly(
      await socketOnly.examine({ target: { transport: 'helper' } }),
      'transport',
      /libvirt-sock works; virt-ssh-helper is refused.*To do: configure `transport: socket`/,
    );
  });

  it.each([
    ['polkit-denied', /not let kvmfn in .*To do: put the account into .*usermod -aG libvirt kvmfn/],
    ['sasl', /not let kvmfn in .*usermod -aG libvirt kvmfn/],
  ] as const)('ends at a daemon that does not let the account in: %s', async (auth, detail) => {
    await using host = await startExaminedHost({ auth });

    expectOnly(await host.examine(), 'libvirt-session', detail);
    await untilLeft(host.embedded);
  });

  it('ends at a daemon without the QEMU driver', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('connectOpen', { kind: 'error', code: 5, message: 'no driver' }, 'every');

    expectOnly(await host.examine(), 'libvirt-session', /no driver\. To do: install the QEMU driver/);
  });

  it('ends at a daemon that breaks the connection off', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('connectOpen', { kind: 'cut-before' }, 'every');

    expectOnly(
      await host.examine({ target: { transport: 'socket' } }),
      'libvirt-session',
      /journalctl -u libvirtd/,
    );
  });
});

describe('which way works', () => {
  it.each([
    ['both', 'auto', /^the socket .* is used; virt-ssh-helper works too$/],
    [
      'forward',
      'auto',
      /^the socket .* is used; virt-ssh-helper is refused \(.*\), which is no fault: .* command="virt-ssh-helper qemu:\/\/\/system",restrict/,
    ],
    [
      'helper',
      'auto',
      /^virt-ssh-helper is used; the socket .* is refused \(.*\), which is no fault: .* PermitOpen \[\/run\/libvirt\/libvirt-sock\]:\* for kvmfn/,
    ],
    ['both', 'helper', /^virt-ssh-helper is used; the socket .* works too$/],
    ['both', 'socket', /^the socket .* is used; virt-ssh-helper works too$/],
  ] as const)('is told of an account with %s and transport %s', async (access, transport, detail) => {
    await using host = await startExaminedHost({ access });

    const health = await host.examine({ target: { transport } });

    expect(health.faults).toEqual({});
    expect(health.check('transport').detail).toMatch(detail);
    await untilLeft(host.embedded);
  });
});

describe('what a host has', () => {
  it('lacks hardware support', async () => {
    await using host = await startExaminedHost({ virtTypes: ['qemu'] });

    expect((await host.examine()).faults).toEqual({
      'virt-type': expect.stringMatching(/no q35 on x86_64 with kvm.*To do: make \/dev\/kvm usable/),
    });
  });

  it('lacks the pool, and with it a way to read the clock', async () => {
    await using host = await startExaminedHost();

    const health = await host.examine({ host: { pool: 'fast' } });

    expect(health.faults).toEqual({
      pool: expect.stringMatching(/^there is no storage pool fast\. To do: .*virsh pool-define-as fast dir/),
    });
    expect(health.unchecked).toEqual(['clock']);
  });

  it('has a pool that is not active', async () => {
    await using host = await startExaminedHost();
    host.embedded.state.pools.byName('default').stop();

    const health = await host.examine();

    expect(health.faults).toEqual({
      pool: expect.stringMatching(/is not active\. To do: start it .*virsh pool-start default/),
    });
    expect(health.unchecked).toEqual(['clock']);
  });

  it('has a pool that is full, whose clock can be read all the same', async () => {
    await using host = await startExaminedHost({ storageBytes: 1_000_000 });

    const health = await host.examine();

    expect(health.faults).toEqual({ pool: expect.stringMatching(/is full: .*To do: make room below/) });
    expect(health.check('clock').ok).toBe(true);
  });

  it('lacks the bridge, or has something else by its name', async () => {
    await using host = await startExaminedHost();

    expect((await host.examine({ host: { bridge: 'br9' } })).faults).toEqual({
      bridge: expect.stringMatching(/^the host has no interface br9\. To do: .*ip link add br9 type bridge/),
    });
    expect((await host.examine({ host: { bridge: 'lo' } })).faults).toEqual({
      bridge: expect.stringMatching(/^lo is of type ethernet, not a bridge/),
    });
  });

  it.each([
    [3, 'this function is not supported by the connection driver: virInterfaceLookupByName'],
    [38, "Failed to connect socket to '/var/run/libvirt/virtinterfaced-sock': No such file or directory"],
  ])('is not blamed for a daemon that cannot tell of bridges (code %i)', async (code, message) => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('interfaceLookupByName', { kind: 'error', code, message }, 'every');

    const health = await host.examine();

    expect(health.ok).toBe(true);
    expect(health.check('bridge').detail).toBe(`not checked: this daemon cannot tell (${message})`);
  });

  it.each([
    ['behind', -3_600_000, /the host’s clock is 3600 s behind/],
    ['ahead', 45_000, /the host’s clock is 45 s ahead/],
  ])('has a clock that is %s', async (_which, offsetMs, detail) => {
    await using host = await startExaminedHost({ now: () => Date.now() + offsetMs });

    const health = await host.examine();

    expect(health.faults).toEqual({ clock: expect.stringMatching(detail) });
    expect(health.faults.clock).toContain('To do: synchronise it');
  });

  it('loses nothing else to one check that fails', async () => {
    await using host = await startExaminedHost();
    const refused = { kind: 'error', code: 1, message: 'internal error: odd' } as const;
    host.embedded.faults
      .at('connectGetLibVersion', refused, 'every')
      .at('storagePoolGetInfo', refused, 'every')
      .at('connectGetDomainCapabilities', refused, 'every');

    const health = await host.examine();

    expect(Object.keys(health.faults).sort()).toEqual(['libvirt-version', 'pool', 'virt-type']);
    for (const detail of Object.values(health.faults)) expect(detail).toContain('internal error: odd');
    expect(health.check('bridge').ok).toBe(true);
  });
});

describe('the volume that shows the clock', () => {
  const PREFIX = 'kvmfn-clock-';
  const path = (name: string) => `/var/lib/libvirt/images/${name}`;

  it('is deleted also when it cannot be read', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('storageVolGetXmlDesc', { kind: 'error', code: 1 }, 'every');

    const health = await host.examine();

    expect(Object.keys(health.faults)).toEqual(['clock']);
    expect(host.embedded.state.files.paths).toEqual([]);
  });

  it('is found by a later examination when its own was cut off, and no sooner', async () => {
    let offsetMs = 0;
    await using host = await startExaminedHost({ now: () => Date.now() + offsetMs });
    const { files } = host.embedded.state;
    host.embedded.faults.at('storageVolDelete', { kind: 'cut-before' });

    await host.examine();
    const leftOver = files.paths;
    files.create(path('somebody-elses'));
    await host.examine();
    const soonAfter = files.paths;
    offsetMs = 11 * 60_000;
    host.embedded.state.pools.byName('default').refresh();
    await host.examine();

    expect(leftOver).toEqual([expect.stringContaining(PREFIX)]);
    expect(soonAfter).toEqual([...leftOver, path('somebody-elses')]);
    expect(files.paths).toEqual([path('somebody-elses')]);
  });

  it('is what a refused create shows: a fault with libvirt’s words', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('storageVolCreateXml', { kind: 'error', code: 38, int1: 13, message: 'denied' });

    expect((await host.examine()).faults).toEqual({
      clock: expect.stringMatching(/libvirt refuses storageVolCreateXml: denied/),
    });
  });
});

describe('an examination', () => {
  it.each(['storagePoolLookupByName', 'connectGetDomainCapabilities', 'interfaceLookupByName'] as const)(
    'ends in its time when %s is never answered, and says so of that check alone',
    async (procedure) => {
      await using host = await startExaminedHost();
      host.embedded.faults.at(procedure, { kind: 'no-answer' }, 'every');
      const deadlineAt = Date.now() + 2_500;

      const health = await host.examine({ deadlineAt });

      expect(Date.now()).toBeLessThan(deadlineAt);
      const faults = Object.values(health.faults);
      expect(faults).toEqual([expect.stringMatching(`no answer to ${procedure} within`)]);
      await untilLeft(host.embedded);
    },
  );

  it('ends in its time when the daemon accepts and says nothing', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('connectOpen', { kind: 'no-answer' }, 'every');

    const health = await host.examine({ deadlineAt: Date.now() + 2_500 });

    expect(health.faults).toEqual({
      'libvirt-session': expect.stringMatching(/no answer to connectOpen.*To do: restart the daemon/),
    });
    await untilLeft(host.embedded);
  });

  it('bears a connection that is lost in its middle', async () => {
    await using host = await startExaminedHost();
    host.embedded.faults.at('storagePoolLookupByName', {
      kind: 'hook',
      hook: () => host.embedded.dropConnections(),
    });

    const health = await host.examine();

    expect(health.ok).toBe(false);
    expect(health.check('pool').ok).toBe(false);
    expect(health.check('libvirt-session').ok).toBe(true);
    await untilLeft(host.embedded);
  });

  it('of a host that is not configured is the caller’s error', async () => {
    await using host = await startExaminedHost();

    await expect(host.examine({ hosts: [] })).rejects.toMatchObject({ kind: 'not-found' });
  });

  it('that the caller gives up rejects with the caller’s reason and closes what it opened', async () => {
    await using host = await startExaminedHost();
    const caller = new AbortController();
    const reason = new Error('enough');
    host.embedded.faults.at('storagePoolLookupByName', { kind: 'hook', hook: () => caller.abort(reason) });

    await expect(host.examine({ signal: caller.signal })).rejects.toBe(reason);
    await untilLeft(host.embedded);
  });
});
