/**
 * An SSH server in this process that decodes what it is sent and can be told to misbehave at each step. For what a
 * real sshd does see real-sshd.ts.
 */
import type { AddressInfo } from 'node:net';
import ssh2, { type AuthContext, type Connection, type ServerChannel } from 'ssh2';
import type { KeyPair } from './keys.ts';

export interface SshServerBehaviour {
  /** Default: the client's key, for any user, verified by its signature. */
  readonly authenticate?: (context: AuthContext) => void;
  /** Default: an echo for any path. Rejecting gives reason 2; `prohibited` gives reason 1 for every path. */
  readonly onForward?:
    | ((socketPath: string, accept: () => ServerChannel, reject: () => void) => void)
    | 'prohibited';
  /** Default: no session channels. */
  readonly onExec?: (command: string, accept: () => ServerChannel, reject: () => void) => void;
  readonly onConnection?: (connection: Connection) => void;
}

export interface TestSshServer {
  readonly port: number;
  /** Authentication methods in the order they were tried, over all connections. */
  readonly methods: string[];
  readonly connections: Connection[];
  close(): Promise<void>;
}

export async function startSshServer(
  hostKeys: readonly KeyPair[],
  clientKey: KeyPair,
  behaviour: SshServerBehaviour = {},
): Promise<TestSshServer> {
  const allowed = ssh2.utils.parseKey(clientKey.public);
  if (allowed instanceof Error) throw allowed;
  const methods: string[] = [];
  const connections: Connection[] = [];
  const server = new ssh2.Server({ hostKeys: hostKeys.map((key) => key.private) }, (connection) => {
    connections.push(connection);
    connection.on('error', () => {});
    behaviour.onConnection?.(connection);
    connection.on('authentication', (context) => {
      methods.push(context.method);
      if (behaviour.authenticate) return behaviour.authenticate(context);
      if (context.method !== 'publickey' || !context.key.data.equals(allowed.getPublicSSH())) {
        return context.reject(['publickey']);
      }
      if (!context.signature || !context.blob) return context.accept();
      return allowed.verify(context.blob, context.signature, context.hashAlgo) === true
        ? context.accept()
        : context.reject();
    });
    const { onForward } = behaviour;
    if (onForward !== 'prohibited') {
      connection.on('openssh.streamlocal', (accept, reject, { socketPath }) => {
        if (onForward) return onForward(socketPath, accept, reject);
        const channel = accept();
        return channel.pipe(channel);
      });
    }
    connection.on('session', (accept, reject) => {
      const onExec = behaviour.onExec;
      if (!onExec) return reject();
      return accept().on('exec', (acceptExec, rejectExec, info) =>
        onExec(info.command, acceptExec, rejectExec),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    methods,
    connections,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const connection of connections) connection.end();
      await closed;
    },
  };
}
