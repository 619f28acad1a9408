/**
 * Answers small packets at once, so that the next one comes at once. sshd leaves Nagle's algorithm on until a session
 * asks for a command, and a forwarded socket is none: of what it has to say in several small packets (its own remarks
 * after the login, the confirmation of a channel, replies to calls in flight together) each waits until the one before
 * is acknowledged, and a kernel that has nothing to send takes 40 ms for that. Whatever we send carries the
 * acknowledgement along.
 */
import type { Socket } from 'node:net';
import type { Client } from 'ssh2';

/** More than this fills whole segments, which Nagle does not hold back. */
const SMALL_BYTES = 4096;

/**
 * From now on, when a little arrived and nothing was sent since until the end of the next turn of the event loop, calls
 * `send`. The next turn, because the libvirt client lets the messages of one turn leave together at its end: whoever got
 * a reply and asks something more has sent it by then.
 */
export function carryAcknowledgements(socket: Socket, send: () => void): void {
  let isDue = false;
  let sentBefore = 0;
  // Before ssh2's own listener, which may send something right away.
  socket.prependListener('data', (chunk: Buffer) => {
    if (chunk.length > SMALL_BYTES) return;
    // Also for one that comes while another is due: what was sent before it did not acknowledge it.
    sentBefore = socket.bytesWritten;
    if (isDue) return;
    isDue = true;
    setImmediate(() =>
      setImmediate(() => {
        isDue = false;
        if (socket.writable && socket.bytesWritten === sentBefore) send();
      }),
    );
  });
}

/**
 * A request that changes nothing and is answered by nothing: the end of a forwarding that was never begun (RFC 4254
 * section 7.1). ssh2 has no SSH_MSG_IGNORE to offer.
 */
export function sendNothing(client: Client): void {
  try {
    // Without the callback that its types want: with one, sshd would have to answer.
    Reflect.apply(client.unforwardIn, client, ['localhost', 1]);
  } catch {
    // The connection has ended meanwhile: its own listeners tell.
  }
}
