/** `npm run doctor` as a user runs it: a process of its own, a configuration file, and the embedded hosts behind it. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedHost, startEmbeddedHost } from '../../../infra/local/hypervisor/embedded-host.ts';
import { generateSshKey } from '../../../infra/local/hypervisor/ssh-key.ts';
import { HOST_CHECKS } from '../../../lib/provider/host-health.ts';

const COMMAND = join(import.meta.dirname, '../../../infra/local/doctor.ts');

describe('npm run doctor', () => {
  let folder: string;
  let hosts: EmbeddedHost[];
  const key = generateSshKey();
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kvmfn-doctor-'));
    hosts = [
      await startEmbeddedHost({ name: 'kvm-a', authorizedKeys: [key.publicKey] }),
      await startEmbeddedHost({
        name: 'kvm-bravo',
        authorizedKeys: [key.publicKey],
        access: 'helper',
        bridges: [],
      }),
    ];
    writeFileSync(join(folder, 'id_ed25519'), key.privateKey);
    writeFileSync(join(folder, 'known_hosts'), hosts.map(({ knownHosts }) => `${knownHosts}\n`).join(''));
    writeConfig('config.yaml', {});
  });
  afterAll(async () => {
    for (const host of hosts) await host.close();
    rmSync(folder, { recursive: true });
  });

  function writeConfig(name: string, other: object): void {
    const config = {
      fleet: 'demo',
      ssh: { user: 'kvmfn', privateKey: { file: './id_ed25519' }, knownHosts: { file: './known_hosts' } },
      hosts: hosts.map(({ name: host, address, port, socketPath }) => ({
        name: host,
        address,
        port,
        socket: socketPath,
        bridge: 'br0',
      })),
      machineTypes: { small: { vcpus: 1, memoryMiB: 512 } },
      images: {
        debian: { url: 'https://images.example.test/d', format: 'raw', checksum: `sha256:${'0'.repeat(64)}` },
      },
      ...other,
    };
    writeFileSync(join(folder, name), JSON.stringify(config));
  }

  const doctor = (...args: string[]) =>
    new Promise<{ code: number; lines: string[]; complaint: string }>((resolve) => {
      execFile(process.execPath, [COMMAND, ...args], { cwd: folder }, (error, stdout, stderr) => {
        const code = typeof error?.code === 'number' ? error.code : 0;
        resolve({ code, lines: stdout.split('\n').filter((line) => line !== ''), complaint: stderr });
      });
    });

  it('prints one line for each check of a host and exits with 0 when all is well', async () => {
    const { code, lines, complaint } = await doctor('--config', 'config.yaml', '--host', 'kvm-a');

    expect(complaint).toBe('');
    expect(lines).toEqual(
      HOST_CHECKS.map((name) => expect.stringMatching(new RegExp(`^kvm-a  ok    ${name} +\\d+ ms  \\S`))),
    );
    expect(code).toBe(0);
  });

  it('examines every host, and exits with 1 when one of their checks fails', async () => {
    const { code, lines } = await doctor('--config', 'config.yaml');

    expect(lines).toHaveLength(2 * HOST_CHECKS.length);
    expect(lines.filter((line) => !/^\S+ +ok /.test(line))).toEqual([
      expect.stringMatching(
        /^kvm-bravo {2}FAIL {2}bridge +\d+ ms {2}the host has no interface br0\. To do: /,
      ),
    ]);
    expect(code).toBe(1);
  });

  it.each([
    ['no configuration', [], /--config is missing\nusage: /],
    ['an option it does not know', ['--config', 'config.yaml', '--all'], /'--all'[\s\S]*usage: /],
    [
      'a host that is not configured',
      ['--config', 'config.yaml', '--host', 'x'],
      /no host x; there are: kvm-a, kvm-bravo/,
    ],
    ['a file that is not there', ['--config', 'none.yaml'], /none\.yaml:1: cannot be read/],
    ['a file with faults', ['--config', 'faults.yaml'], /faults\.yaml:1: fleet: /],
    ['a key that is not there', ['--config', 'keyless.yaml'], /nowhere: cannot be read/],
  ])('refuses %s in words, without a stack, and exits with 2', async (_what, args, complaint) => {
    writeConfig('faults.yaml', { fleet: 'Not A Label' });
    writeConfig('keyless.yaml', {
      ssh: { user: 'kvmfn', privateKey: { file: './nowhere' }, knownHosts: { file: './known_hosts' } },
    });

    const result = await doctor(...args);

    expect(result.complaint).toMatch(complaint);
    expect(result.complaint).not.toMatch(/^\s+at /m);
    expect(result).toMatchObject({ code: 2, lines: [] });
  });
});
