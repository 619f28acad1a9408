import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DownloadOptions, openImage } from '../../../lib/image/image-download.ts';
import type { ImageSource } from '../../../lib/image/image-source.ts';
import {
  type Answer,
  chunked,
  cutOff,
  type ImageServer,
  inTwoParts,
  startImageServer,
  whole,
} from '../../contract/image-server.ts';
import { buildQcow2Disk, checksumOf } from '../../contract/qcow2-disk.ts';

const disk = buildQcow2Disk({ virtualSizeBytes: 64 * 1024 ** 2, dataClusters: 16, fill: 9 });

let server: ImageServer;
let source: ImageSource;

beforeEach(async () => {
  server = await startImageServer(whole(disk));
  source = { name: 'tiny', url: server.url, format: 'qcow2', checksum: checksumOf(disk) };
});

afterEach(() => server.close());

async function read(of: ImageSource = source, changes: Partial<DownloadOptions> = {}): Promise<Buffer> {
  const download = await openImage(of, { fetch, signal: new AbortController().signal, ...changes });
  try {
    const parts: Uint8Array[] = [];
    for await (const part of download.chunks) parts.push(Buffer.from(part));
    return Buffer.concat(parts);
  } finally {
    await download.close();
  }
}

function expectFault(attempt: Promise<unknown>, reason: string, retryable: boolean): Promise<void> {
  return expect(attempt).rejects.toMatchObject({ name: 'ImageError', reason, retryable });
}

describe('an image from a web server', () => {
  it('arrives whole, with its size and virtual size known before the first byte is taken', async () => {
    const download = await openImage(source, { fetch, signal: new AbortController().signal });

    expect(download).toMatchObject({ sizeBytes: disk.length, header: { virtualSizeBytes: 64 * 1024 ** 2 } });
    await download.close();
    expect((await read()).equals(disk)).toBe(true);
  });

  it('is followed through redirects', async () => {
    server.answer((request, response) => {
      if (request.url === '/disk') response.writeHead(302, { location: '/mirror/disk' }).end();
      else whole(disk)(request, response);
    });

    expect((await read()).equals(disk)).toBe(true);
  });

  it('is asked for as it is stored, and refused when it comes compressed all the same', async () => {
    let accepted: string | undefined;
    server.answer((request, response) => {
      accepted = request.headers['accept-encoding'];
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': 20 }).end(Buffer.alloc(20));
    });

    await expectFault(read(), 'format', false);
    expect(accepted).toBe('identity');
  });

  it.each([
    [404, 'refused', false],
    [403, 'refused', false],
    [206, 'refused', false],
    [408, 'unavailable', true],
    [429, 'unavailable', true],
    [500, 'unavailable', true],
    [503, 'unavailable', true],
  ])('is not there when the answer is %i: %s, retryable %s', async (status, reason, retryable) => {
    server.answer((_, response) => response.writeHead(status, { 'content-length': disk.length }).end(disk));

    await expectFault(read(), reason, retryable);
  });

  it('is unreachable when nobody listens, and the message says why without the query', async () => {
    await server.close();

    const attempt = read({ ...source, url: `${server.url}?signature=secret` });

    await expectFault(attempt, 'unreachable', true);
    await expect(attempt).rejects.toThrow(
      /^image tiny: http:\/\/127\.0\.0\.1:\d+\/disk cannot be reached \(ECONNREFUSED\)$/,
    );
    server = await startImageServer(whole(disk));
  });

  it('is given up when its server falls silent, before or after the first byte', async () => {
    const never = new Promise<void>(() => undefined);
    const silences: Answer[] = [
      () => undefined,
      inTwoParts(disk, 10, never),
      inTwoParts(disk, 500_000, never),
    ];
    for (const silence of silences) {
      server.answer(silence);

      await expectFault(read(source, { stallMs: 50 }), 'stalled', true);
    }
  });

  it("ends with the caller's reason when the caller aborts", async () => {
    const caller = new AbortController();
    const reason = new Error('enough');
    server.answer(() => caller.abort(reason));

    await expect(read(source, { signal: caller.signal })).rejects.toBe(reason);
  });

  it('lets go of the connection when it is closed unread', async () => {
    const gone = Promise.withResolvers<void>();
    server.answer((request, response) => {
      response.on('close', () => gone.resolve());
      inTwoParts(disk, 200_000, new Promise(() => undefined))(request, response);
    });
    const download = await openImage(source, { fetch, signal: new AbortController().signal });

    await download.close();

    await expect(gone.promise).resolves.toBeUndefined();
  });
});

describe('IM-01: a body that ends early', () => {
  const sent = [0, 1, 700, 70_000, disk.length - 1];

  it.each(sent)('is an error after %i bytes of an announced length', async (bytes) => {
    server.answer(cutOff(disk, bytes));

    await expectFault(read(), 'truncated', true);
  });

  it.each(sent)('is an error after %i bytes without the terminator of a chunked body', async (bytes) => {
    server.answer(chunked(disk, bytes));

    await expectFault(read({ ...source, sizeBytes: disk.length }), 'truncated', true);
  });

  it.each(sent)('is an error when a chunked body ends properly after %i bytes', async (bytes) => {
    server.answer(chunked(disk.subarray(0, bytes)));

    await expectFault(read({ ...source, sizeBytes: disk.length }), 'truncated', true);
  });
});

describe('IM-02: the size of an image', () => {
  /** A server whose GET says no length; `others` answers what else is asked. */
  function withoutLength(others: Answer): Answer {
    return (request, response) => {
      if (request.method === 'GET' && request.headers.range === undefined) chunked(disk)(request, response);
      else others(request, response);
    };
  }
  const notAllowed: Answer = (_, response) => response.writeHead(405, { 'content-length': 3 }).end('no.');

  it('is taken from a HEAD when the answer does not say it', async () => {
    server.answer(
      withoutLength((_, response) => response.writeHead(200, { 'content-length': disk.length }).end()),
    );

    expect((await read()).equals(disk)).toBe(true);
    expect(server.requests).toEqual(['GET /disk', 'HEAD /disk']);
  });

  it('is taken from the total of a range when the server has no HEAD', async () => {
    server.answer(
      withoutLength((request, response) => {
        if (request.method === 'HEAD') notAllowed(request, response);
        else
          response.writeHead(206, { 'content-range': `bytes 0-0/${disk.length}` }).end(disk.subarray(0, 1));
      }),
    );

    expect((await read()).equals(disk)).toBe(true);
  });

  it('is taken from the configuration before the server is asked again', async () => {
    server.answer(withoutLength(notAllowed));

    expect((await read({ ...source, sizeBytes: disk.length })).equals(disk)).toBe(true);
    expect(server.requests).toEqual(['GET /disk']);
  });

  it.each(['bytes 0-0/*', 'bytes 0-0/-5', 'bytes 0-0/1e9', ''])(
    'is unknown, for good, when nothing says it (content-range %j)',
    async (contentRange) => {
      server.answer(
        withoutLength((request, response) => {
          if (request.method === 'HEAD') notAllowed(request, response);
          else response.writeHead(206, { 'content-range': contentRange }).end('x');
        }),
      );

      await expectFault(read(), 'unknown-size', false);
    },
  );

  it('is wrong when configuration and server differ, or when more arrives', async () => {
    await expectFault(read({ ...source, sizeBytes: disk.length + 1 }), 'size-mismatch', false);

    server.answer(chunked(disk));
    await expectFault(read({ ...source, sizeBytes: disk.length - 1 }), 'size-mismatch', false);
  });
});

describe('an image from a file', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'image-'));
  });

  afterEach(() => rm(folder, { recursive: true }));

  it('arrives whole', async () => {
    const path = join(folder, 'a disk.qcow2');
    await writeFile(path, disk);

    expect((await read({ ...source, url: pathToFileURL(path).href })).equals(disk)).toBe(true);
  });

  it('is refused when it is missing or a folder', async () => {
    await expectFault(read({ ...source, url: pathToFileURL(join(folder, 'none')).href }), 'refused', false);
    await expectFault(read({ ...source, url: pathToFileURL(folder).href }), 'refused', false);
  });
});

it.each(['ftp://images.example/disk', 'images.example/disk', 'data:,disk'])(
  'refuses the address %s',
  async (url) => {
    await expectFault(read({ ...source, url }), 'source', false);
  },
);
