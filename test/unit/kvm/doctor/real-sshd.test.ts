/** The two restricted accounts of docs/hosts.md, and one that may do nothing, before a real sshd: OpenSSH's own refusals. */
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedLibvirt } from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import { createHostExaminer } from '../../../../lib/kvm/doctor/examine-host.ts';
import { parseKnownHosts } from '../../../../lib/ssh/known-hosts.ts';
import { probeHost } from '../../../../lib/ssh/probe.ts';
import type { TransportChoice } from '../../../../lib/ssh/transport.ts';
import { createKeyDir, type KeyDir, type KeyPair } from '../../ssh/keys.ts';
import { NO_SSHD, type RealSshdOptions, startRealSshd } from '../../ssh/real-sshd.ts';
import { type Examination, readHealth } from './examined-host.ts';

describe.skipIf(NO_SSHD)(`an account of a real sshd${NO_SSHD ? ` (skipped: ${NO_SSHD})` : ''}`, () => {
  let dir: KeyDir;
  let hostKey: KeyPair;
  let clientKey: KeyPair;
  let socketPath: string;
  const daemon = createEmbeddedLibvirt({ name: 'kvm-a' });
  const listener = createServer((socket) => daemon.serve(socket));

  beforeAll(async () => {
    dir = createKeyDir();
    hostKey = dir.generate('host', '-t', 'ed25519');
    clientKey = dir.generate('client', '-t', 'ed25519');
    socketPath = join(dir.path, 'libvirt-sock');
    await new Promise<void>((resolve) => listener.listen(socketPath, resolve));
  });
  afterAll(async () => {
    await daemon.close();
    await new Promise((resolve) => listener.close(resolve));
    dir.remove();
  });

  async function examine(
    name: string,
    account: Partial<RealSshdOptions>,
    transport: TransportChoice = 'auto',
  ): Promise<Examination> {
    const sshd = await startRealSshd(dir, { name, hostKey, clientKey, ...account });
    const target = {
      address: '127.0.0.1',
      port: sshd.port,
      user: sshd.user,
      privateKey: clientKey.private,
      knownHosts: parseKnownHosts(sshd.knownHosts),
      socketPath,
      transport,
    };
    const examiner = createHostExaminer({
      hosts: [{ name: 'kvm-a', pool: 'default', bridge: 'br0', virtType: 'kvm' }],
      probe: (_name, limits) => probeHost(target, limits),
      now: Date.now,
      monotonic: () => performance.now(),
      randomUuid: () => crypto.randomUUID(),
      deadlineAt: Date.now() + 30_000,
    });
    try {
      return readHealth(await examiner.examineHost('kvm-a'));
    } finally {
      await sshd.stop();
    }
  }

  /** As `command="…",restrict` in authorized_keys; the script stands in for virt-ssh-helper. */
  function boundTo(name: string, script: string): Partial<RealSshdOptions> {
    const file = join(dir.path, `${name}.sh`);
    writeFileSync(file, `#!/bin/sh\n${script}\n`);
    chmodSync(file, 0o755);
    return { keyOptions: `command="${file}",restrict` };
  }
  const relay = () =>
    `exec '${process.execPath}' -e 'const s = require("net").connect(process.argv[1]); process.stdin.pipe(s).pipe(process.stdout)' '${socketPath}'`;

  it('that may forward to the socket and nothing else passes, and is told what the helper would need', async () => {
    const health = await examine('socket-only', {
      config: [
        'AllowTcpForwarding local',
        'AllowStreamLocalForwarding local',
        `PermitOpen [${socketPath}]:*`,
        'MaxSessions 0',
        'ForceCommand /bin/false',
      ],
    });

    expect(health.faults).toEqual({});
    expect(health.check('transport').detail).toMatch(
      /libvirt-sock is used; virt-ssh-helper is refused .*no fault: it would need a key bound to it by command="virt-ssh-helper/,
    );
  });

  it('whose key is bound to the helper passes, and is told what the socket would need', async () => {
    const health = await examine('helper-only', boundTo('relay', relay()));

    expect(health.faults).toEqual({});
    expect(health.check('transport').detail).toMatch(
      /^virt-ssh-helper is used; the socket .* is refused .*no fault: it would need AllowTcpForwarding local, .*PermitOpen/,
    );
  });

  it('that may do nothing fails at the transport, with one thing that tells policy from daemon', async () => {
    const health = await examine('nothing', {
      ...boundTo('false', 'exec /bin/false'),
      config: ['MaxSessions 0', 'PermitOpen none'],
    });

    expect(health.faults).toEqual({
      transport: expect.stringMatching(
        /socket .* is refused.*virt-ssh-helper is refused.*To do: run `sudo -u \S+ test -w/,
      ),
    });
  });

  it('whose helper is not installed is told so by the host’s own shell', async () => {
    const health = await examine(
      'no-helper',
      boundTo('missing', 'exec virt-ssh-helper-is-missing'),
      'helper',
    );

    expect(health.faults).toEqual({
      transport: expect.stringMatching(/exited with 127: .*not found.*To do: install virt-ssh-helper/),
    });
  });

  it('with a key of another account is let in nowhere', async () => {
    const health = await examine('stranger', { clientKey: dir.generate('stranger', '-t', 'ed25519') });

    expect(Object.keys(health.faults)).toEqual(['authentication']);
  });
});
