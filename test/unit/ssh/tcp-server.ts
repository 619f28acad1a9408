/** Plain TCP in tests: a server that does as it is told, and a proxy whose connections can be cut, reset or stopped. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface TcpServer {
  readonly port: number;
  /** Connections accepted so far. */
  readonly accepted: number;
  /** Those still open. */
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** @param onConnection is given the connection's number, from 1 */
export async function startTcpServer(
  onConnection: (socket: Socket, number: number) => void,
): Promise<TcpServer> {
  const open = new Set<Socket>();
  let accepted = 0;
  const server = createServer((socket) => {
    accepted++;
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    onConnection(socket, accepted);
    // An end is only seen by who reads.
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    get accepted() {
      return accepted;
    },
    open,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}

export interface TcpProxy extends TcpServer {
  /** Resets every connection (RST). */
  reset(): void;
  /** Closes every connection (FIN). */
  cut(): void;
  /** Takes nothing more from the client, as a host that does not read. */
  stall(): void;
  resume(): void;
}

/** @param admit false: the connection of this number (from 1) is closed at once */
export async function startTcpProxy(
  port: number,
  admit: (number: number) => boolean = () => true,
): Promise<TcpProxy> {
  const pairs = new Map<Socket, Socket>();
  const server = await startTcpServer((client, number) => {
    if (!admit(number)) {
      client.destroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1');
    pairs.set(client, upstream);
    upstream.on('error', () => {});
    upstream.on('close', () => client.destroy());
    client.on('close', () => {
      pairs.delete(client);
      upstream.destroy();
    });
    client.pipe(upstream).pipe(client);
  });
  return {
    port: server.port,
    get accepted() {
      return server.accepted;
    },
    open: server.open,
    close: server.close,
    reset: () => {
      for (const client of pairs.keys()) client.resetAndDestroy();
    },
    cut: () => {
      for (const client of pairs.keys()) client.end();
    },
    stall: () => {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream);
        client.pause();
      }
    },
    resume: () => {
      for (const [client, upstream] of pairs) client.pipe(upstream);
    },
  };
}
