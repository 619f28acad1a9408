/**
 * The QEMU guest agent of a simulated guest: the commands that read a file, and what cloud-init has left to be read.
 * Names, arguments and answers are those of the agent's protocol (qga/qapi-schema.json); refusals too have their words.
 */
import type { Guest } from './guest.ts';

/** The agent's own `error` object, which libvirt turns into an internal error. */
export class AgentRefusal extends Error {
  override readonly name = 'AgentRefusal';
}

const DEFAULT_READ_BYTES = 4_096;
/** What the agent itself refuses to read at once. */
const MAX_READ_BYTES = 48 * 1024 ** 2;
const FIRST_HANDLE = 1_000;

type Arguments = Readonly<Record<string, unknown>>;

/**
 * @param command one command as JSON
 * @returns the answer as JSON, `{ return: … }`
 * @throws AgentRefusal
 */
export function answerAgent(guest: Guest, now: number, command: string): string {
  if (guest.agentAnswer) {
    return guest.agentAnswer(command);
  }
  const { execute, arguments: given } = readCommand(command);
  if (!Object.hasOwn(COMMANDS, execute)) {
    throw new AgentRefusal(
      `unable to execute QEMU agent command '${execute}': The command ${execute} has not been found`,
    );
  }
  if (guest.deniedCommands.has(execute)) {
    throw new AgentRefusal(
      `unable to execute QEMU agent command '${execute}': Command ${execute} has been disabled`,
    );
  }
  return JSON.stringify({ return: COMMANDS[execute as CommandName](guest, given, now) });
}

type Command = (guest: Guest, given: Arguments, now: number) => unknown;
type CommandName = 'guest-ping' | 'guest-info' | 'guest-file-open' | 'guest-file-read' | 'guest-file-close';

const COMMANDS: Readonly<Record<CommandName, Command>> = {
  'guest-ping': () => ({}),
  'guest-info': ({ deniedCommands }) => ({
    version: '7.2.0',
    supported_commands: Object.keys(COMMANDS).map((name) => ({
      name,
      enabled: !deniedCommands.has(name),
      'success-response': true,
    })),
  }),
  'guest-file-open': (guest, { path, mode = 'r' }, now) => {
    const bytes = mode === 'r' ? readFile(guest, String(path), now) : undefined;
    if (!bytes) {
      throw new AgentRefusal(
        `unable to execute QEMU agent command 'guest-file-open': failed to open file '${path}' (mode: '${mode}'): No such file or directory`,
      );
    }
    const handle = Math.max(FIRST_HANDLE - 1, ...guest.openFiles.keys()) + 1;
    guest.openFiles.set(handle, { bytes, offset: 0 });
    return handle;
  },
  'guest-file-read': (guest, { handle, count = DEFAULT_READ_BYTES }) => {
    const file = openFile(guest, handle);
    const wanted = Number(count);
    if (!(wanted >= 0 && wanted <= MAX_READ_BYTES)) {
      throw new AgentRefusal(
        `unable to execute QEMU agent command 'guest-file-read': value '${count}' is invalid for argument count`,
      );
    }
    const read = file.bytes.subarray(file.offset, file.offset + wanted);
    file.offset += read.length;
    return { count: read.length, 'buf-b64': Buffer.from(read).toString('base64'), eof: read.length < wanted };
  },
  'guest-file-close': (guest, { handle }) => {
    openFile(guest, handle);
    guest.openFiles.delete(Number(handle));
    return {};
  },
};

function openFile({ openFiles }: Guest, handle: unknown) {
  const file = openFiles.get(Number(handle));
  if (!file) {
    throw new AgentRefusal(`unable to execute QEMU agent command: handle '${handle}' has not been found`);
  }
  return file;
}

function readCommand(command: string): { readonly execute: string; readonly arguments: Arguments } {
  let parsed: { execute?: unknown; arguments?: Arguments } = {};
  try {
    parsed = JSON.parse(command);
  } catch {
    throw new AgentRefusal('cannot parse json');
  }
  return { execute: String(parsed.execute), arguments: parsed.arguments ?? {} };
}

const RUN_DIRECTORY = '/run/cloud-init';

function readFile(guest: Guest, path: string, now: number): Uint8Array | undefined {
  const placed = guest.files.get(path);
  if (placed !== undefined) {
    return placed ?? undefined;
  }
  const { doneAt } = guest.cloudInit;
  if (doneAt === undefined) {
    return undefined;
  }
  const isDone = now >= doneAt;
  switch (path) {
    case `${RUN_DIRECTORY}/status.json`:
      return Buffer.from(JSON.stringify(cloudInitStatus(guest, isDone)));
    case `${RUN_DIRECTORY}/result.json`:
      return isDone
        ? Buffer.from(
            JSON.stringify({
              v1: { datasource: guest.cloudInit.datasource, errors: guest.cloudInit.errors },
            }),
          )
        : undefined;
    default:
      return undefined;
  }
}

const STAGES = ['init-local', 'init', 'modules-config', 'modules-final'] as const;

/** As cloud-init 22.4 writes it, with the recoverable errors of newer ones. Errors are there at the end. */
function cloudInitStatus({ bootedAt, cloudInit }: Guest, isDone: boolean): object {
  const seconds = bootedAt / 1_000;
  const stage = (name: (typeof STAGES)[number]) => {
    const isLast = name === 'modules-final';
    return {
      start: seconds,
      finished: isLast && !isDone ? null : seconds + 1,
      errors: name === cloudInit.failedStage && isDone ? cloudInit.errors : [],
      recoverable_errors: name === cloudInit.failedStage && isDone ? cloudInit.recoverableErrors : {},
    };
  };
  return {
    v1: {
      datasource: cloudInit.datasource,
      stage: isDone ? null : 'modules-final',
      ...Object.fromEntries(STAGES.map((name) => [name, stage(name)])),
    },
  };
}
