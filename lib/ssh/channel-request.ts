/** ssh2's callbacks as promises that also end when the caller gives up or the connection dies. */
import type { ClientChannel } from 'ssh2';

/**
 * @param start hands ssh2 the callback; what it throws rejects
 * @param wrap called within ssh2's callback: the packets that follow may be in the same chunk, and an exit code has
 *   come and gone by the time a promise's continuation runs
 * @throws the signal's reason, or what ssh2 reported
 */
export function requestChannel<T>(
  signal: AbortSignal,
  start: (callback: (error: Error | undefined, channel: ClientChannel) => void) => void,
  wrap: (channel: ClientChannel) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const settled = (): void => signal.removeEventListener('abort', onAbort);
    start((error, channel) => {
      settled();
      if (error) reject(error);
      else resolve(wrap(channel));
    });
  });
}

/** CHANNEL_OPEN_FAILURE reason codes (RFC 4254 section 5.1). */
export const OPEN_FAILURE = {
  administrativelyProhibited: 1,
  connectFailed: 2,
  unknownChannelType: 3,
  resourceShortage: 4,
} as const;

/** The code ssh2 attaches to a refused channel; null for any other error. */
export function openFailureReason(error: unknown): number | null {
  return error instanceof Error && 'reason' in error && typeof error.reason === 'number'
    ? error.reason
    : null;
}
