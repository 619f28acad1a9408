/**
 * Why a connection failed, from what ssh2 says and from how far it had come. Only levels, codes and the stage decide;
 * ssh2's and the server's words are quoted for people.
 */
import { remoteText } from './remote-text.ts';
import { SshError } from './ssh-error.ts';

/** `handshake` covers the version banner, the key exchange and the host key. */
export type ConnectStage = 'tcp' | 'handshake' | 'login' | 'connected';

/** What is being waited for in each stage, as the end of "timed out …". */
export const CONNECT_STEPS: Readonly<Record<ConnectStage, string>> = {
  tcp: 'connecting',
  handshake: 'in the SSH handshake',
  login: 'logging in',
  connected: 'after the login',
};

export interface ConnectContext {
  readonly stage: ConnectStage;
  readonly login: {
    readonly address: string;
    readonly port: number;
    readonly user: string;
    readonly privateKey: { readonly type: string; readonly fingerprint: string };
    readonly trust: { readonly algorithms: readonly string[] };
  };
  /** The first bytes the server sent. */
  readonly greeting: string;
}

/** What ssh2 adds to its errors: where they come from, an errno name or the number of a DISCONNECT. */
interface Ssh2Error extends Error {
  readonly level?: string;
  readonly code?: string | number;
}

/** DISCONNECT reasons (RFC 4253 section 11.1) by which a server that is fine otherwise turns us away for now. */
const TURNED_AWAY: readonly unknown[] = [
  7 /* service not available */, 10 /* connection lost */, 12 /* too many connections */,
];

/** A whole version line (RFC 4253 section 4.2), possibly after others. */
const IDENTIFICATION = /^SSH-[^\n]*\n/m;

export function explainError(error: Ssh2Error, context: ConnectContext): SshError {
  const { stage } = context;
  const options = { cause: error };
  const said = remoteText(error.message || String(error.code));
  if (stage === 'connected') {
    return new SshError(
      'connection-lost',
      `the SSH connection to ${peer(context)} was lost: ${said}`,
      options,
    );
  }
  // A reset can overtake the report that the connection was made.
  if (stage === 'tcp' && error.code !== 'ECONNRESET') {
    return new SshError(
      'unreachable',
      `no connection to ${peer(context)}: ${describeSocketError(error)}`,
      options,
    );
  }
  if (error.level === 'client-authentication') return refusedLogin(context, error);
  if (error.level === 'client-socket') return closedEarly(context, describeSocketError(error), error);
  if (TURNED_AWAY.includes(error.code)) return closedEarly(context, said, error);
  if (typeof error.code === 'number' && stage === 'login') return refusedLogin(context, error, said);
  // ssh2's word for a close before the whole version banner was there.
  if (error.level === 'protocol' && !IDENTIFICATION.test(context.greeting)) {
    return closedEarly(context, greetingNote(context), error);
  }
  return new SshError(
    'handshake-failed',
    `no SSH handshake with ${peer(context)}: ${said} (host key types offered, as on file in known_hosts: ` +
      `${context.login.trust.algorithms.join(', ')})`,
    options,
  );
}

/** For an end without an error: ssh2 says nothing when a server closes after its banner. */
export function explainClose(context: ConnectContext): SshError {
  if (context.stage === 'connected') {
    return new SshError('connection-lost', `the SSH connection to ${peer(context)} was closed`);
  }
  return closedEarly(context, greetingNote(context));
}

function closedEarly(context: ConnectContext, detail: string, cause?: unknown): SshError {
  const during = context.stage === 'login' ? 'the login' : 'the handshake';
  return new SshError(
    'closed-early',
    `${peer(context)} closed the connection during ${during}${detail === '' ? '' : `: ${detail}`}`,
    cause === undefined ? {} : { cause },
  );
}

function refusedLogin(context: ConnectContext, cause: Error, said = ''): SshError {
  const { user, privateKey } = context.login;
  return new SshError(
    'auth-refused',
    `${peer(context)} did not accept the key ${privateKey.fingerprint} (${privateKey.type}) for user ${user}` +
      `${said === '' ? '' : ` (${said})`}: look at authorized_keys, AllowUsers, and whether the account is locked ` +
      '(without PAM a password field of "!" counts as locked, "*" does not)',
    { cause },
  );
}

function greetingNote({ greeting }: ConnectContext): string {
  const line = remoteText(greeting.split('\n')[0] ?? '');
  return line === '' || line.startsWith('SSH-') ? '' : `it said "${line}"`;
}

/** A name with several addresses fails with an AggregateError, whose own message is empty. */
function describeSocketError(error: Ssh2Error): string {
  if (error instanceof AggregateError) return error.errors.map((each: unknown) => describe(each)).join('; ');
  return describe(error);
}

function describe(error: unknown): string {
  return error instanceof Error ? remoteText(error.message) : 'unknown error';
}

function peer({ login }: ConnectContext): string {
  return `${login.address} port ${login.port}`;
}
