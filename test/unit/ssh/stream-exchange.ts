/** Talks over a tunnel's stream in tests. */
import type { Duplex } from 'node:stream';

/** Writes and waits until as many bytes have come back. */
export function exchange(stream: Duplex, bytes: Buffer | string): Promise<Buffer> {
  const sent = Buffer.from(bytes);
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    let missing = sent.length;
    const onData = (chunk: Buffer): void => {
      received.push(chunk);
      missing -= chunk.length;
      if (missing <= 0) {
        stream.off('data', onData);
        resolve(Buffer.concat(received));
      }
    };
    stream.on('data', onData);
    stream.once('error', reject);
    stream.once('close', () => reject(new Error('closed before the answer')));
    stream.write(sent);
  });
}

/** How the stream ended: the error it was destroyed with, or null for an orderly end. */
export function ending(stream: Duplex): Promise<Error | null> {
  return new Promise((resolve) => {
    let failure: Error | null = null;
    stream.on('error', (error) => {
      failure = error;
    });
    stream.on('close', () => resolve(failure));
    stream.resume();
  });
}
