/**
 * The host that the benchmarks talk to: the lab's kvm-a with a second sshd on another port. Everybody who takes part logs
 * in there with the same key of the same account, which, unlike on the lab's own sshd, may also run commands: virsh and
 * `ssh cat` need that. The lab itself stays as it is.
 */
import { chown, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { parseKnownHosts } from '../../lib/ssh/known-hosts.ts';
import { openTunnel } from '../../lib/ssh/tunnel.ts';
import { waitUntil } from '../lab/commands.ts';
import { enterHost, findHost, killDaemon, writeHostFile } from '../lab/host.ts';
import { HOSTS, hostDirectories, RUN_DIRECTORY, SSH_USER } from '../lab/topology.ts';
import { createAccess, type Endpoint, type SshAccess, trustEndpoint } from './ssh-access.ts';

export const BENCH_HOST = HOSTS['kvm-a'];
export const SOCKET_PATH = '/run/libvirt/libvirt-sock';

const CONNECT_TIMEOUT_MS = 20_000;
const SSH_PORT = 2222;
const PID_FILE = '/run/sshd-bench.pid';
/** Where `ssh cat` writes: on the pool's file system, and the account's own. As the host sees it. */
const INBOX = '/var/lib/libvirt/bench';

export interface Session extends AsyncDisposable {
  readonly connection: LibvirtConnection;
}

export interface BenchHost extends AsyncDisposable {
  readonly direct: Endpoint;
  readonly access: SshAccess;
  /** Makes an endpoint known, so that it passes for this host. */
  trust(endpoint: Endpoint): Promise<void>;
  /** A libvirt session for what is set up and checked around the measurements. */
  connect(): Promise<Session>;
  /** A file in the account's own folder as the host calls it, and where it lies for this process. */
  inbox(name: string): { readonly onHost: string; readonly here: string };
}

/** Starts the sshd and makes the key. @throws Error when the lab that is up belongs to another clone */
export async function openBenchHost(): Promise<BenchHost> {
  const { runDirectory } = await findHost(BENCH_HOST);
  if (runDirectory !== RUN_DIRECTORY)
    throw new Error(`the lab that is up is of another clone: ${runDirectory}`);
  await stopSshd();
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-bench-'));
  const close = async () => {
    await stopSshd();
    await rm(hostInbox(), { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const access = await createAccess(folder);
    await startSshd(access);
    await createInbox();
    const direct = { address: BENCH_HOST.address, port: SSH_PORT };
    const hostKey = join(hostDirectories(BENCH_HOST).ssh, 'ssh_host_ed25519_key.pub');
    const trust = (endpoint: Endpoint) => trustEndpoint(access, endpoint, hostKey);
    await trust(direct);
    return {
      direct,
      access,
      trust,
      connect: () => connectTo(access, direct),
      inbox: (name) => ({ onHost: `${INBOX}/${name}`, here: join(hostInbox(), name) }),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function startSshd({ privateKeyFile }: SshAccess): Promise<void> {
  const { ssh } = hostDirectories(BENCH_HOST);
  await writeHostFile(ssh, 'bench/authorized_keys', await readFile(`${privateKeyFile}.pub`, 'utf8'));
  await writeHostFile(
    ssh,
    'bench/sshd_config',
    `ListenAddress ${BENCH_HOST.address}
Port ${SSH_PORT}
PidFile ${PID_FILE}
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/bench/authorized_keys
AllowUsers ${SSH_USER}
AuthenticationMethods publickey
UsePAM no
`,
  );
  await enterHost(BENCH_HOST, '/usr/sbin/sshd', [
    '-f',
    '/etc/ssh/bench/sshd_config',
    '-E',
    '/var/log/libvirt/sshd-bench.log',
  ]);
  await waitUntil('the sshd of the benchmarks', isSshdUp);
}

/** Also one that an earlier run, which was killed, has left behind. */
async function stopSshd(): Promise<void> {
  if (await isSshdUp()) {
    await killDaemon(BENCH_HOST, PID_FILE);
    await enterHost(BENCH_HOST, 'rm', ['-f', PID_FILE]);
  }
  await rm(join(hostDirectories(BENCH_HOST).ssh, 'bench'), { recursive: true, force: true });
}

function isSshdUp(): Promise<boolean> {
  return enterHost(BENCH_HOST, 'sh', ['-c', `test -s ${PID_FILE} && kill -0 "$(cat ${PID_FILE})"`]).then(
    () => true,
    () => false,
  );
}

async function createInbox(): Promise<void> {
  const folder = hostInbox();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  const id = (await enterHost(BENCH_HOST, 'id', ['-u', SSH_USER])).trim();
  await chown(folder, Number(id), Number(id));
}

function hostInbox(): string {
  return join(hostDirectories(BENCH_HOST).libvirtState, 'bench');
}

async function connectTo(access: SshAccess, { address, port }: Endpoint): Promise<Session> {
  const tunnel = await openTunnel(
    {
      address,
      port,
      user: access.user,
      privateKey: await readFile(access.privateKeyFile),
      knownHosts: parseKnownHosts(await readFile(access.knownHostsFile, 'utf8')),
      socketPath: SOCKET_PATH,
      transport: 'socket',
    },
    { timeoutMs: CONNECT_TIMEOUT_MS },
  );
  try {
    const connection = await LibvirtConnection.open(tunnel.stream);
    const close = async () => {
      await connection.close();
      await tunnel.close();
    };
    return { connection, [Symbol.asyncDispose]: close };
  } catch (error) {
    await tunnel.close();
    throw error;
  }
}
