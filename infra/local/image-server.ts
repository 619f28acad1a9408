/** An HTTP server on loopback for the image of the embedded default, so that its import streams like a real one. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ImageServer {
  readonly url: string;
  close(): Promise<void>;
}

export async function startImageServer(fileName: string, image: Uint8Array): Promise<ImageServer> {
  const path = `/${fileName}`;
  const server = createServer((request, response) => {
    if (request.url !== path || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404).end();
      return;
    }
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const start = Number(range?.[1] ?? 0);
    const end = Math.min(range?.[2] ? Number(range[2]) : image.byteLength - 1, image.byteLength - 1);
    if (range !== null && start > end) {
      response.writeHead(416, { 'content-range': `bytes */${image.byteLength}` }).end();
      return;
    }
    response.writeHead(range === null ? 200 : 206, {
      'content-type': 'application/octet-stream',
      'accept-ranges': 'bytes',
      'content-length': end - start + 1,
      ...(range !== null && { 'content-range': `bytes ${start}-${end}/${image.byteLength}` }),
    });
    response.end(request.method === 'HEAD' ? undefined : image.subarray(start, end + 1));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${path}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
