/** Guests that are slow, refuse, lie or hang: a `get` says what it could learn, in time, and leaves nothing open. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Guest } from '../../../infra/local/hypervisor/state/guest.ts';
import type { Instance } from '../../../lib/provider/instance.ts';
import { ImageServer, tinyRawImage } from '../../contract/fleet-harness.ts';
import { EmbeddedWorld, HOST } from '../../faults/embedded-world.ts';

const ID = `${HOST.name}/vm-1`;
const SECRET = 'hunter2-correct-horse';
const STATUS = '/run/cloud-init/status.json';

let image: ImageServer;
beforeAll(async () => {
  image = await ImageServer.start(tinyRawImage());
});
afterAll(() => image.close());

let world: EmbeddedWorld;
let guest: Guest;
beforeEach(async () => {
  world = await EmbeddedWorld.start({ image, imagePresent: true });
  await world.fleet.use((provider) => provider.create(world.fleet.request('vm-1', HOST.name)));
  guest = world.daemon.state.domains.guest('vm-1');
  world.daemon.faults.reset();
  return () => world[Symbol.asyncDispose]();
});

const get = (): Promise<Instance> => world.fleet.use((provider) => provider.get(ID));
const readiness = async () => (await get()).readiness;
const agentCommands = (): unknown[] =>
  world.daemon.faults.log.flatMap(({ name, args }) =>
    name === 'domainAgentCommand' ? [JSON.parse((args as { cmd: string }).cmd).execute] : [],
  );

describe('the readiness of a guest', () => {
  it('goes from running to done, read through the agent in five questions at most, the result first', async () => {
    const running = await readiness();
    const whileRunning = agentCommands();
    world.fleet.advance(5);
    world.daemon.faults.reset();
    const done = await readiness();

    expect(running).toEqual({ cloudInit: 'running', detail: 'in stage modules-final' });
    expect(done).toEqual({ cloudInit: 'done', detail: null });
    const read = ['guest-file-open', 'guest-file-read', 'guest-file-close'];
    expect(whileRunning).toEqual(['guest-file-open', ...read]);
    expect(agentCommands()).toEqual(['guest-file-open', 'guest-file-close', ...read]);
    expect(guest.openFiles.size).toBe(0);
  });

  it('counts errors without a word of them', async () => {
    world.fleet.advance(5);
    guest.cloudInit.errors = [`('runcmd', '${SECRET}')`];
    const error = await get();
    guest.cloudInit.errors = [];
    guest.cloudInit.recoverableErrors = { WARNING: [SECRET] };
    const degraded = await get();

    expect(error.readiness).toEqual({ cloudInit: 'error', detail: 'errors in modules-final (1)' });
    expect(degraded.readiness).toEqual({
      cloudInit: 'degraded',
      detail: 'recoverable errors in modules-final (1)',
    });
    expect(JSON.stringify([error, degraded, world.fleet.reports])).not.toContain(SECRET);
  });

  it('is disabled where cloud-init was switched off, unknown where it left nothing', async () => {
    guest.files.set(STATUS, null);
    const nothing = await readiness();
    guest.files.set('/run/cloud-init/disabled', Buffer.alloc(0));
    const disabled = await readiness();

    expect(nothing).toEqual({
      cloudInit: 'unknown',
      detail: 'cloud-init has left no status in the guest: it has not begun, or is not installed',
    });
    expect(disabled).toEqual({ cloudInit: 'disabled', detail: 'cloud-init is switched off in the guest' });
  });

  it('is unknown with the remedy where the agent may not read files', async () => {
    guest.deniedCommands.add('guest-file-open').add('guest-file-read');

    expect(await readiness()).toEqual({
      cloudInit: 'unknown',
      detail: expect.stringMatching(/does not permit guest-file-open, guest-file-read: allow them/),
    });
  });

  it('is unknown with another remedy where the agent may not even say what it permits', async () => {
    guest.deniedCommands.add('guest-file-open').add('guest-info');

    expect(await readiness()).toEqual({
      cloudInit: 'unknown',
      detail: expect.stringMatching(/does not permit guest-info, which tells why: allow it/),
    });
  });

  it('is not done without its errors when the boot ends between two questions', async () => {
    guest.cloudInit.errors = [SECRET];
    let asked = 0;
    const end = () => {
      asked += 1;
      if (asked === 4) world.fleet.advance(5);
    };
    world.daemon.faults.at('domainAgentCommand', { kind: 'hook', hook: end }, 'every');

    const between = await readiness();

    expect(asked).toBeGreaterThanOrEqual(4);
    expect(between?.cloudInit).not.toBe('done');
    expect((await readiness())?.cloudInit).toBe('error');
  });

  it('is null for a VM that does not run, and not there in a list or where nobody asks for it', async () => {
    const notAsked = await world.fleet.use((provider) => provider.get(ID), {
      readiness: { cloudInit: false },
    });
    const commands = agentCommands();
    const listed = await world.fleet.use((provider) => provider.listByTag());
    const { state } = world.daemon;
    state.domains.stop(state.domains.byName('vm-1'), 0);

    expect('readiness' in notAsked).toBe(false);
    expect(commands).toEqual([]);
    expect(listed.instances.map((instance) => 'readiness' in instance)).toEqual([false]);
    expect(await readiness()).toBeNull();
  });
});

describe('a guest that is not to be believed', () => {
  const answer = (value: unknown): string => JSON.stringify({ return: value });
  const file = (text: string, eof = true) => ({ count: text.length, 'buf-b64': btoa(text), eof });
  const opened = (command: string, other: () => string): string =>
    command.includes('guest-file-open') ? answer(1000) : other();

  it.each<[string, (command: string) => string]>([
    ['no JSON', () => 'return'],
    ['an empty answer', () => ''],
    ['another answer', () => '{}'],
    ['an error as an answer', () => `{"error":{"desc":"${SECRET}"}}`],
    ['a handle that is no number', () => answer({ a: SECRET })],
    ['a handle beyond all numbers', () => '{"return":1e400}'],
    ['no content', (command) => opened(command, () => answer({}))],
    [
      'content that is no text',
      (command) => opened(command, () => answer({ 'buf-b64': [SECRET], eof: true })),
    ],
    ['a file that never ends', (command) => opened(command, () => answer(file('', false)))],
    ['a file that is too long', (command) => opened(command, () => answer(file('x'.repeat(40_000), false)))],
    ['an answer that is too long', (command) => opened(command, () => answer(file('x'.repeat(1_000_000))))],
    ['a status that is none', (command) => opened(command, () => answer(file(SECRET)))],
    ['a deep status', (command) => opened(command, () => answer(file('['.repeat(60_000))))],
    [
      'a status of wrong types',
      (command) => opened(command, () => answer(file('{"v1":{"init":7,"stage":[]}}'))),
    ],
  ])('is unknown with %s', async (_, say) => {
    guest.agentAnswer = (command) => (command.includes('interfaces') ? answer([]) : say(command));

    const instance = await get();

    expect(instance.readiness?.cloudInit).toBe('unknown');
    expect(JSON.stringify(instance)).not.toContain(SECRET);
    expect(instance.state).toBe('Running');
  });

  it('closes what it opened also when reading fails', async () => {
    guest.deniedCommands.add('guest-file-read');

    await readiness();

    expect(agentCommands()).toContain('guest-file-close');
    expect(guest.openFiles.size).toBe(0);
  });
});

describe('a guest that does not answer', () => {
  it('is asked nothing more when its agent has just kept a question waiting', async () => {
    guest.agent = 'stuck';

    const seen = await readiness();

    expect(seen).toEqual({ cloudInit: 'unknown', detail: 'the guest’s agent does not answer' });
    expect(agentCommands()).toEqual([]);
  });

  it('costs a get the deadline of readiness and no more, however slow each answer is', async () => {
    world.daemon.faults.at('domainAgentCommand', { kind: 'delay', ms: 1_400 }, 'every');
    const begun = performance.now();

    const seen = await readiness();

    expect(seen?.cloudInit).toBe('unknown');
    // The address takes one answer before; the deadline is three seconds, and a close may go half a second beyond it. All
    // six answers take 8.4 s.
    expect(performance.now() - begun).toBeLessThan(1_400 + 3_500 + 2_000);
    await sleep(2_000);
    expect(guest.openFiles.size).toBe(0);
  });

  it('loses the session where the connection breaks, as every other question does', async () => {
    world.daemon.faults.at('domainAgentCommand', { kind: 'cut-before' });

    await expect(get()).rejects.toMatchObject({ kind: 'transient' });
  });
});
