/**
 * A daemon that takes nothing for a while: nothing in between may hold the transfer for it. The window stays closed for
 * two seconds here, where a host was seen to keep it closed for ten: what would pile up piles up in the first of them.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { ServerChannel } from 'ssh2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../lib/libvirt/connection.ts';
import { FrameDecoder } from '../../lib/libvirt/framing.ts';
import { encodeReply, encodeStreamError, MESSAGE_TYPE } from '../../lib/libvirt/message.ts';
import { procedureName } from '../../lib/libvirt/protocol.ts';
import { buildRemoteError } from '../../lib/libvirt/remote-error.ts';
import { createSshFixture, type SshFixture } from '../unit/ssh/ssh-fixture.ts';
import { startSshServer } from '../unit/ssh/ssh-server.ts';

const MIB = 1 << 20;
const SOURCE_BYTES = 2_048 * MIB;
const CLOSED_MS = 2_000;
const transfer = { vol: { pool: 'p', name: 'v', key: '/v' }, offset: 0n, length: 0n, flags: 0 };

/** A daemon that agrees to an upload, reads nothing from its first packet until `reopen`, and then fails it for want of space. */
function stallingDaemon(channel: ServerChannel, capacityBytes: number) {
  const decoder = new FrameDecoder();
  let received = 0;
  let reading = false;
  let failed = false;
  channel.on('data', (chunk: Buffer) =>
    decoder.push(Buffer.from(chunk), ({ header, payload }) => {
      const { type, serial } = header;
      if (type === MESSAGE_TYPE.call) {
        const name = procedureName(header);
        if (name === 'connectOpen' || name === 'storageVolUpload') {
          channel.write(encodeReply(name, serial, undefined));
        }
        return;
      }
      received += payload.length;
      if (!reading) channel.pause();
      if (received >= capacityBytes && !failed) {
        failed = true;
        const error = buildRemoteError({
          code: 38,
          domain: 38,
          message: 'No space left on device',
          int1: 28,
        });
        channel.write(encodeStreamError('storageVolUpload', serial, error));
      }
    }),
  );
  return {
    received: () => received,
    reopen: () => {
      reading = true;
      channel.resume();
    },
  };
}

/** 2 GiB from one buffer, so that whatever memory grows is not the source's. */
function bigSource() {
  const chunk = Buffer.alloc(MIB, 7);
  let taken = 0;
  let ended = false;
  const chunks = async function* (): AsyncGenerator<Uint8Array> {
    try {
      for (; taken < SOURCE_BYTES; taken += chunk.length) yield chunk;
    } finally {
      ended = true;
    }
  };
  return { chunks: chunks(), taken: () => taken, ended: () => ended };
}

const memoryInUse = (): number => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

describe('SS-10: an upload of 2 GiB to a remote whose window is closed', () => {
  let ssh: SshFixture;
  beforeAll(() => {
    ssh = createSshFixture();
  });
  afterEach(() => ssh.closeAll());
  afterAll(() => ssh.remove());

  it('waits with a few chunks in memory, goes on when it opens, and ends the source at the error', async () => {
    let daemon: ReturnType<typeof stallingDaemon> | undefined;
    const server = ssh.use(
      await startSshServer([ssh.hostKey], ssh.clientKey, {
        onForward: (_path, accept) => {
          daemon = stallingDaemon(accept(), 64 * MIB);
        },
      }),
    );
    const { stream } = await ssh.open(ssh.target(server.port));
    const connection = await LibvirtConnection.open(stream);
    const source = bigSource();
    const before = memoryInUse();

    const uploading = connection.upload('storageVolUpload', transfer, source.chunks);
    uploading.catch(() => undefined);
    await expect.poll(() => daemon?.received()).toBeGreaterThan(0);
    await pause(CLOSED_MS / 2);
    const halfway = source.taken();
    await pause(CLOSED_MS / 2);
    const takenWhileClosed = source.taken();
    const grown = memoryInUse() - before;
    daemon?.reopen();

    await expect(uploading).rejects.toMatchObject({ code: 38, int1: 28 });
    // Two windows of 2 MiB, one granted and one that the server's side has buffered, and what waits on ours.
    expect(takenWhileClosed).toBeLessThanOrEqual(8 * MIB);
    expect(takenWhileClosed).toBe(halfway);
    expect(grown).toBeLessThan(64 * MIB);
    expect(daemon?.received()).toBeGreaterThanOrEqual(64 * MIB);
    expect(source.taken()).toBeLessThan(96 * MIB);
    await expect.poll(source.ended).toBe(true);
  });
});
