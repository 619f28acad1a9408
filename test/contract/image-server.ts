/** A web server on loopback that answers as each test says, and counts what it is asked. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export interface ImageServer {
  readonly url: string;
  /** `GET /disk`, in the order of arrival. */
  readonly requests: readonly string[];
  /** Replaces what it answers from now on. */
  answer(answer: Answer): void;
  close(): Promise<void>;
}

export async function startImageServer(first: Answer): Promise<ImageServer> {
  let current = first;
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    current(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/disk`,
    requests,
    answer: (answer) => {
      current = answer;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The whole body with its length, as a file server sends it. */
export function whole(bytes: Uint8Array): Answer {
  return (_, response) => {
    response.writeHead(200, { 'content-length': bytes.length }).end(bytes);
  };
}

/** The first part at once, the rest when the gate opens. */
export function inTwoParts(bytes: Uint8Array, firstBytes: number, gate: Promise<void>): Answer {
  return (_, response) => {
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(bytes.subarray(0, firstBytes));
    void gate.then(() => response.end(bytes.subarray(firstBytes)));
  };
}

/** Announces the whole length and hangs up after a part. */
export function cutOff(bytes: Uint8Array, sentBytes: number): Answer {
  return (_, response) => {
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(bytes.subarray(0, sentBytes), () => response.destroy());
  };
}

/** Chunked, so without a length; hangs up before the terminator if `sentBytes` says less than all. */
export function chunked(bytes: Uint8Array, sentBytes = bytes.length): Answer {
  return (_, response) => {
    response.writeHead(200);
    response.write(bytes.subarray(0, sentBytes), () => {
      if (sentBytes === bytes.length) response.end();
      else response.destroy();
    });
  };
}
