/**
 * The daemon's socket through `direct-streamlocal@openssh.com` (OpenSSH PROTOCOL section 2.4): bytes from us to a unix
 * socket on the host, with nothing installed there.
 */
import type { Duplex } from 'node:stream';
import { OPEN_FAILURE, openFailureReason, requestChannel } from './channel-request.ts';
import { ChannelStream } from './channel-stream.ts';
import type { SshConnection } from './connection.ts';
import { remoteText } from './remote-text.ts';
import { SshError } from './ssh-error.ts';

/**
 * @param socketPath absolute; sshd's PermitOpen compares it literally, so `/var/run` is not `/run`
 * @param signal ends the attempt with its reason
 * @throws SshError forward-prohibited, socket-unreachable, or the signal's reason
 */
export async function forwardToSocket(
  { client, socket, lost }: SshConnection,
  socketPath: string,
  signal: AbortSignal,
): Promise<Duplex> {
  const either = AbortSignal.any([signal, lost]);
  try {
    return await requestChannel(
      either,
      (callback) => client.openssh_forwardOutStreamLocal(socketPath, callback),
      (channel) => new ChannelStream(channel, { socket }),
    );
  } catch (error) {
    either.throwIfAborted();
    throw explainRefusal(error, socketPath);
  }
}

function explainRefusal(error: unknown, socketPath: string): SshError {
  const said = error instanceof Error ? remoteText(error.message) : '';
  switch (openFailureReason(error)) {
    case OPEN_FAILURE.administrativelyProhibited:
    case OPEN_FAILURE.unknownChannelType:
      return new SshError(
        'forward-prohibited',
        `sshd forbids forwarding to ${socketPath}: allow it for this user with AllowTcpForwarding local, ` +
          `AllowStreamLocalForwarding local and PermitOpen [${socketPath}]:* (${said})`,
        { cause: error },
      );
    default:
      return new SshError(
        'socket-unreachable',
        `sshd could not or would not connect to ${socketPath}, and does not say which: either the daemon is not ` +
          'running, its socket is elsewhere (modular daemons: virtqemud-sock; virtproxyd keeps libvirt-sock) or ' +
          "closed to this user (group libvirt); or sshd's policy refuses the forward (AllowTcpForwarding, " +
          `AllowStreamLocalForwarding, PermitOpen, restrict) (${said})`,
        { cause: error },
      );
  }
}
