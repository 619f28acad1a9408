/**
 * The sshd in front of an embedded libvirtd: a real handshake with a real host key, public-key authentication, and two
 * ways to the daemon and nothing else: forwarding to its socket, and `virt-ssh-helper` as the only command.
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import ssh2, { type AuthContext, type Connection, type ServerChannel } from 'ssh2';

export interface SshServerOptions {
  /** Private host keys, at least one. */
  readonly hostKeys: readonly string[];
  /** Lines as in authorized_keys: type and base64. */
  readonly authorizedKeys: readonly string[];
  readonly user: string;
  /** The one socket that may be forwarded to; compared literally, as sshd does. */
  readonly socketPath: string;
  /** Which of the two ways the account may use. */
  readonly access: 'forward' | 'helper' | 'both';
  /** 0 takes a free port. */
  readonly port: number;
  /** Whether the socket would accept a connection now. */
  readonly isListening: () => boolean;
  readonly serve: (channel: ServerChannel) => void;
}

export interface SshServer {
  readonly port: number;
  /** Connections that are open now. */
  readonly connections: number;
  /** Every connection is lost, as when the network goes away. */
  dropConnections(): void;
  close(): Promise<void>;
}

/** Listens on loopback only. @throws Error when the port is taken or a key cannot be read. */
export async function startSshServer(options: SshServerOptions): Promise<SshServer> {
  const ssh = new ssh2.Server({ hostKeys: [...options.hostKeys], ident: 'embedded' }, (connection) => {
    // A client that breaks off is the ordinary end of half of these connections.
    connection.on('error', () => connection.end());
    connection.on('authentication', (context) => authenticate(context, options));
    connection.on('ready', () => offer(connection, options));
  });
  const sockets = new Set<Socket>();
  // Replies are small and awaited one by one: Nagle's algorithm would hold each back for the client's delayed ACK.
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    ssh.injectSocket(socket);
  });
  listener.listen(options.port, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();

  const dropConnections = (): void => {
    for (const socket of sockets) {
      socket.destroy();
    }
  };
  return {
    port: typeof address === 'object' && address ? address.port : options.port,
    get connections() {
      return sockets.size;
    },
    dropConnections,
    async close() {
      const closed = once(listener, 'close');
      listener.close();
      dropConnections();
      await closed;
    },
  };
}

function authenticate(context: AuthContext, { user, authorizedKeys }: SshServerOptions): void {
  if (context.method !== 'publickey' || context.username !== user) {
    context.reject(['publickey']);
    return;
  }
  const offered = context.key.data.toString('base64');
  const line = authorizedKeys.find((candidate) => candidate.split(' ')[1] === offered);
  const key = line === undefined ? undefined : ssh2.utils.parseKey(line);
  if (key === undefined || key instanceof Error) {
    context.reject(['publickey']);
    return;
  }
  // Without a signature the client only asks whether the key would do (RFC 4252 section 7).
  const isProven =
    context.signature === undefined ||
    (context.blob !== undefined && key.verify(context.blob, context.signature, context.hashAlgo) === true);
  if (isProven) {
    context.accept();
  } else {
    context.reject(['publickey']);
  }
}

function offer(connection: Connection, options: SshServerOptions): void {
  connection.on('openssh.streamlocal', (accept, reject, { socketPath }) => {
    // sshd gives one and the same refusal for a forward it does not allow and a socket it cannot reach.
    const isAllowed = options.access !== 'helper' && socketPath === options.socketPath;
    if (isAllowed && options.isListening()) {
      options.serve(accept());
    } else {
      reject();
    }
  });
  connection.on('session', (acceptSession, rejectSession) => {
    if (options.access === 'forward') {
      rejectSession();
      return;
    }
    // With `command=` in authorized_keys any command is asked for in vain: the forced one runs.
    acceptSession().on('exec', (accept) => runHelper(accept(), options));
  });
}

function runHelper(channel: ServerChannel, { isListening, serve }: SshServerOptions): void {
  if (!isListening()) {
    channel.stderr.write(
      "virt-ssh-helper: cannot connect to '/run/libvirt/libvirt-sock': Connection refused\n",
    );
    channel.exit(1);
    channel.end();
    return;
  }
  channel.once('finish', () => channel.exit(0));
  serve(channel);
}
