/**
 * The daemon through an exec channel to `virt-ssh-helper`, for a key whose forced command is that and nothing else.
 * sshd runs the forced command whatever is asked for; for a key without one, what is asked for is right as well.
 */
import type { Duplex } from 'node:stream';
import type { ClientChannel } from 'ssh2';
import { OPEN_FAILURE, openFailureReason, requestChannel } from './channel-request.ts';
import { ChannelStream } from './channel-stream.ts';
import type { SshConnection } from './connection.ts';
import { remoteText } from './remote-text.ts';
import { SshError } from './ssh-error.ts';

/** Ships with the daemon since libvirt 6.8; finds the classic or the modular socket by itself. */
export const HELPER_COMMAND = 'virt-ssh-helper qemu:///system';

const STDERR_BYTES = 4_096;

/** Shell exit codes for a command that cannot be run or is not there: no retry changes that. */
const NOT_EXECUTABLE = 126;
const NOT_FOUND = 127;

/**
 * The start is confirmed before the command can fail: when it ends with an error, the stream is destroyed with an
 * SshError `helper-failed` that carries its exit code and what it wrote to stderr.
 * @param signal ends the attempt with its reason
 * @param earlier the refusals that led to this way: the helper's failure alone would hide them
 * @throws SshError helper-failed, or the signal's reason
 */
export async function runHelper(
  { client, socket, lost }: SshConnection,
  signal: AbortSignal,
  earlier: readonly SshError[] = [],
): Promise<Duplex> {
  const either = AbortSignal.any([signal, lost]);
  try {
    return await requestChannel(
      either,
      (callback) => client.exec(HELPER_COMMAND, callback),
      (channel) => {
        const exit = watchExit(channel);
        return new ChannelStream(channel, { socket, explainEnd: () => explainExit(exit(), earlier) });
      },
    );
  } catch (error) {
    either.throwIfAborted();
    const said = error instanceof Error ? remoteText(error.message) : '';
    throw new SshError('helper-failed', `sshd does not let this account run ${HELPER_COMMAND} (${said})`, {
      cause: error,
      retryable: openFailureReason(error) === OPEN_FAILURE.resourceShortage,
    });
  }
}

interface HelperExit {
  /** null: ended by a signal; undefined: never reported. */
  readonly code: number | null | undefined;
  readonly signalName: string | undefined;
  readonly stderr: string;
}

function watchExit(channel: ClientChannel): () => HelperExit {
  let code: number | null | undefined;
  let signalName: string | undefined;
  let stderr = Buffer.alloc(0);
  channel.on('exit', (status: number | null, name?: string) => {
    code = status;
    signalName = name;
  });
  channel.stderr.on('data', (chunk: Buffer) => {
    stderr = Buffer.concat([stderr, chunk.subarray(0, STDERR_BYTES - stderr.length)]);
  });
  return () => ({ code, signalName, stderr: remoteText(stderr.toString('utf8')) });
}

/** An exit with 0 is the daemon's own end of the connection. */
function explainExit(
  { code, signalName, stderr }: HelperExit,
  earlier: readonly SshError[],
): SshError | null {
  if (code === 0) return null;
  const how =
    code === undefined ? 'ended' : code === null ? `was ended by ${signalName}` : `exited with ${code}`;
  const missing = code === NOT_FOUND || code === NOT_EXECUTABLE;
  const parts = [`${HELPER_COMMAND} ${how}`];
  if (stderr !== '') parts.push(`: ${stderr}`);
  if (missing) parts.push('; it ships with libvirt 6.8 or newer');
  for (const { message } of earlier) parts.push(`; tried before it: ${message}`);
  return new SshError('helper-failed', parts.join(''), {
    retryable: !missing || earlier.some(({ retryable }) => retryable),
  });
}
