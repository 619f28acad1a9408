import type { ServerChannel } from 'ssh2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_SOCKET_PATH, type TransportChoice } from '../../../lib/ssh/transport.ts';
import { createSshFixture, type SshFixture } from './ssh-fixture.ts';
import { type SshServerBehaviour, startSshServer, type TestSshServer } from './ssh-server.ts';
import { ending, exchange } from './stream-exchange.ts';

describe('the way to the daemon', () => {
  let ssh: SshFixture;
  beforeAll(() => {
    ssh = createSshFixture();
  });
  afterEach(() => ssh.closeAll());
  afterAll(() => ssh.remove());

  const echo = (channel: ServerChannel): ServerChannel => channel.pipe(channel);

  /** A server that lets in what `allowed` names, and the list of what was asked of it. */
  async function serve(allowed: readonly string[]): Promise<{ server: TestSshServer; asked: string[] }> {
    const asked: string[] = [];
    const server = ssh.use(
      await startSshServer([ssh.hostKey], ssh.clientKey, {
        onForward: (path, accept, reject) => {
          asked.push(path);
          if (allowed.includes(path)) echo(accept());
          else reject();
        },
        onExec: (command, accept, reject) => {
          asked.push(command);
          if (allowed.includes(command)) echo(accept());
          else reject();
        },
      }),
    );
    return { server, asked };
  }

  const CLASSIC = DEFAULT_SOCKET_PATH;
  const MODULAR = '/run/libvirt/virtqemud-sock';
  const HELPER = 'virt-ssh-helper qemu:///system';
  const CASES: { choice: TransportChoice; allowed: string[]; asked: string[]; transport: string }[] = [
    { choice: 'auto', allowed: [CLASSIC, MODULAR, HELPER], asked: [CLASSIC], transport: 'socket' },
    { choice: 'auto', allowed: [MODULAR, HELPER], asked: [CLASSIC, MODULAR], transport: 'socket' },
    { choice: 'auto', allowed: [HELPER], asked: [CLASSIC, MODULAR, HELPER], transport: 'helper' },
    { choice: 'socket', allowed: [MODULAR, HELPER], asked: [CLASSIC, MODULAR], transport: 'socket' },
    { choice: 'helper', allowed: [CLASSIC, HELPER], asked: [HELPER], transport: 'helper' },
  ];

  it.each(CASES)(
    '$choice asks for $asked of $allowed, on one connection',
    async ({ choice, allowed, asked, transport }) => {
      const host = await serve(allowed);

      const tunnel = await ssh.open(ssh.target(host.server.port, { socketPath: CLASSIC, transport: choice }));

      expect(tunnel.transport).toBe(transport);
      expect(String(await exchange(tunnel.stream, 'x'))).toBe('x');
      expect(host.asked).toEqual(asked);
      expect(host.server.connections).toHaveLength(1);
    },
  );

  it('takes a path that was named for the only one', async () => {
    const { server, asked } = await serve([MODULAR]);

    const opening = ssh.open(ssh.target(server.port, { socketPath: '/run/test/daemon.sock' }));

    await expect(opening).rejects.toMatchObject({ reason: 'socket-unreachable' });
    expect(new Set(asked)).toEqual(new Set(['/run/test/daemon.sock']));
  });

  it('SS-09: takes reason 1 for final and names what allows the forward', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey, { onForward: 'prohibited' }));

    await expect(ssh.open(ssh.target(server.port))).rejects.toMatchObject({
      reason: 'forward-prohibited',
      retryable: false,
      message: expect.stringMatching(
        /AllowTcpForwarding.*AllowStreamLocalForwarding.*PermitOpen \[\/run\/test\/daemon\.sock\]:\*/,
      ),
    });
    expect(server.connections).toHaveLength(1);
  });

  it('SS-09: takes reason 2 for passing, names both causes, and looks twice more', async () => {
    const { server } = await serve([]);

    await expect(ssh.open(ssh.target(server.port))).rejects.toMatchObject({
      reason: 'socket-unreachable',
      retryable: true,
      message: expect.stringMatching(
        /virtqemud-sock.*virtproxyd.*group libvirt.*AllowTcpForwarding.*\(3 attempts\)$/,
      ),
    });
    expect(server.connections).toHaveLength(3);
  });

  it('SS-09: comes through a restart of the daemon', async () => {
    let refusals = 2;
    const server = ssh.use(
      await startSshServer([ssh.hostKey], ssh.clientKey, {
        onForward: (_path, accept, reject) => {
          if (refusals-- > 0) reject();
          else echo(accept());
        },
      }),
    );

    const { stream } = await ssh.open(ssh.target(server.port));

    expect(String(await exchange(stream, 'back'))).toBe('back');
  });

  it('names every way when auto finds none, and stays retryable for the socket', async () => {
    const { server } = await serve([]);

    await expect(
      ssh.open(ssh.target(server.port, { socketPath: CLASSIC, transport: 'auto' })),
    ).rejects.toMatchObject({
      reason: 'socket-unreachable',
      retryable: true,
      message: expect.stringMatching(/libvirt-sock.*; then .*virtqemud-sock.*; then .*virt-ssh-helper/s),
    });
  });

  it('fails for good when the account may not run the helper', async () => {
    const server = ssh.use(await startSshServer([ssh.hostKey], ssh.clientKey));

    await expect(ssh.open(ssh.target(server.port, { transport: 'helper' }))).rejects.toMatchObject({
      reason: 'helper-failed',
      retryable: false,
    });
    expect(server.connections).toHaveLength(1);
  });

  describe('through a helper that ends', () => {
    /** Everything in one breath, so that start, complaint, exit and close can arrive before the stream is handed out. */
    async function endingWith(
      end: (channel: ServerChannel) => void,
      behaviour: SshServerBehaviour = {},
    ): Promise<Error | null> {
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, {
          ...behaviour,
          onExec: (_command, accept) => {
            const channel = accept();
            end(channel);
            channel.end();
          },
        }),
      );
      const transport = behaviour.onForward ? 'auto' : 'helper';
      return ssh.open(ssh.target(server.port, { transport })).then(
        ({ stream }) => ending(stream),
        (error) => error,
      );
    }

    it('because it is missing, fails for good with its complaint', async () => {
      const error = await endingWith((channel) => {
        channel.stderr.write('sh: 1: virt-ssh-helper: not found\n\u001b[31m');
        channel.exit(127);
      });

      expect(error).toMatchObject({
        reason: 'helper-failed',
        retryable: false,
        message:
          'virt-ssh-helper qemu:///system exited with 127: sh: 1: virt-ssh-helper: not found [31m; ' +
          'it ships with libvirt 6.8 or newer',
      });
    });

    it('because of the daemon, fails for now', async () => {
      const error = await endingWith((channel) => channel.exit(1));

      expect(error).toMatchObject({ reason: 'helper-failed', retryable: true });
    });

    it('while it is written to, tells of the helper and not of the write', async () => {
      const server = ssh.use(
        await startSshServer([ssh.hostKey], ssh.clientKey, {
          onExec: (_command, accept) => {
            const channel = accept();
            channel.stderr.write('no daemon here');
            channel.eof();
            setTimeout(() => {
              channel.exit(1);
              channel.close();
            }, 50);
          },
        }),
      );
      const { stream } = await ssh.open(ssh.target(server.port, { transport: 'helper' }));
      // A client's first message can fall between the end of the output and the exit code.
      const ended = ending(stream);
      const write = setInterval(() => stream.writable && stream.write('x'), 0);
      const error = await ended;
      clearInterval(write);

      expect(error).toMatchObject({
        reason: 'helper-failed',
        message: expect.stringContaining('no daemon here'),
      });
    });

    it('by a signal, names it', async () => {
      const error = await endingWith((channel) => channel.exit('KILL'));

      expect(error?.message).toContain('was ended by SIGKILL');
    });

    it('in order, ends the stream without an error', async () => {
      expect(await endingWith((channel) => channel.exit(0))).toBeNull();
    });

    it('with more to say than anyone reads, is quoted in part', async () => {
      const error = await endingWith((channel) => {
        channel.stderr.write('complaint '.repeat(100_000));
        channel.exit(1);
      });

      expect(error?.message.length).toBeLessThan(1_000);
    });

    it('after the socket was refused, tells of that as well', async () => {
      const error = await endingWith((channel) => channel.exit(1), {
        onForward: (_path, _accept, reject) => reject(),
      });

      expect(error?.message).toMatch(/exited with 1; tried before it: .*\/run\/test\/daemon\.sock/);
    });
  });
});
