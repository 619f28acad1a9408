/**
 * Serves the guest image over HTTP on loopback, as an image store would: with a length, a validator and byte
 * ranges. A process of its own, because it outlives `lab up`; it reads what to serve as one line of JSON on
 * standard input and prints the image's URL.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createInterface } from 'node:readline';
import * as z from 'zod';

const order = z.object({ file: z.string(), urlPath: z.string(), etag: z.string() });
type Order = z.infer<typeof order>;

interface Range {
  readonly start: number;
  readonly end: number;
}

for await (const line of createInterface({ input: process.stdin })) {
  const image = order.parse(JSON.parse(line));
  const size = (await stat(image.file)).size;
  const server = createServer((request, response) => serveImage(image, size, request, response));
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    if (address !== null && typeof address === 'object') {
      console.log(`http://127.0.0.1:${address.port}${image.urlPath}`);
    }
  });
  break;
}

function serveImage(image: Order, size: number, request: IncomingMessage, response: ServerResponse): void {
  if (request.url !== image.urlPath) {
    response.writeHead(404).end();
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
    return;
  }
  const range = chooseRange(request, image, size);
  if (range === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${size}` }).end();
    return;
  }
  const { start, end } = range ?? { start: 0, end: size - 1 };
  response.writeHead(range === null ? 200 : 206, {
    'content-type': 'application/octet-stream',
    'content-length': end - start + 1,
    'accept-ranges': 'bytes',
    etag: image.etag,
    ...(range === null ? {} : { 'content-range': `bytes ${start}-${end}/${size}` }),
  });
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  const stream = createReadStream(image.file, { start, end });
  response.on('close', () => stream.destroy());
  stream.on('error', () => response.destroy());
  stream.pipe(response);
}

/** RFC 9110, section 14: one range; several, malformed ones, and those of another version of the image (If-Range) are ignored. */
function chooseRange(request: IncomingMessage, image: Order, size: number): Range | 'unsatisfiable' | null {
  const ifRange = request.headers['if-range'];
  if (ifRange !== undefined && ifRange !== image.etag) return null;
  const match = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  if (match === null) return null;
  const start = Number(match[1]);
  const end = match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1);
  if (start >= size) return 'unsatisfiable';
  return start > end ? null : { start, end };
}
