import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { AUTH_TYPE } from '../../../lib/libvirt/constants.ts';
import { ERROR_CODE } from '../../../lib/libvirt/errors.ts';
import { FakeDaemon, type Handlers } from './fake-daemon.ts';

const OPEN = { timeoutMs: 60_000 };

afterEach(() => {
  vi.useRealTimers();
});

/** A daemon that wants `types` before it lets the client open; `polkit` says how that call ends. */
function guardedDaemon(types: number[], polkit: 'granted' | { code: number; message: string }): FakeDaemon {
  let authenticated = false;
  const handlers: Handlers = {
    connectOpen: (call, daemon) =>
      authenticated
        ? daemon.reply('connectOpen', call, undefined)
        : daemon.refuse(call, { code: ERROR_CODE.rpc, domain: 7, message: 'authentication required' }),
    authList: (call, daemon) => {
      // Root is let in by being asked: the real daemon then offers none.
      authenticated ||= types.includes(AUTH_TYPE.none);
      daemon.reply('authList', call, { types });
    },
    authPolkit: (call, daemon) => {
      if (polkit === 'granted') {
        authenticated = true;
        daemon.reply('authPolkit', call, { complete: 1 });
      } else {
        daemon.refuse(call, polkit);
      }
    },
  };
  return new FakeDaemon(handlers);
}

const names = (daemon: FakeDaemon): string[] => daemon.calls.map(({ procedure }) => procedure);

describe('opening', () => {
  it('takes one call where the daemon asks for nothing', async () => {
    const daemon = new FakeDaemon();

    await LibvirtConnection.open(daemon.client, OPEN);

    expect(daemon.calls).toMatchObject([
      { procedure: 'connectOpen', args: { name: 'qemu:///system', flags: 0 } },
    ]);
  });

  it('LV-17: authenticates by polkit on the same connection when the open is answered 39', async () => {
    const daemon = guardedDaemon([AUTH_TYPE.polkit], 'granted');

    const connection = await LibvirtConnection.open(daemon.client, OPEN);

    expect(connection.closed).toBe(false);
    expect(names(daemon)).toEqual(['connectOpen', 'authList', 'authPolkit', 'connectOpen']);
  });

  it('LV-17: opens again without polkit where the list offers none', async () => {
    const daemon = guardedDaemon([AUTH_TYPE.none], { code: 1, message: 'not to be called' });

    await LibvirtConnection.open(daemon.client, OPEN);

    expect(names(daemon)).toEqual(['connectOpen', 'authList', 'connectOpen']);
  });

  it('LV-17: says what to do on the host when only SASL is offered', async () => {
    const daemon = guardedDaemon([AUTH_TYPE.sasl], 'granted');

    const opening = LibvirtConnection.open(daemon.client, OPEN);

    await expect(opening).rejects.toMatchObject({
      name: 'LibvirtAuthError',
      authTypes: [AUTH_TYPE.sasl],
      message: expect.stringMatching(/group.*libvirt.*polkit rule/s),
      cause: { code: 39 },
    });
    expect(names(daemon)).toEqual(['connectOpen', 'authList']);
    expect(daemon.client.destroyed).toBe(true);
  });

  it.each([
    ['unavailable (no polkit agent)', ERROR_CODE.authUnavailable],
    ['denied', ERROR_CODE.authFailed],
    ['cancelled', ERROR_CODE.authCancelled],
    ['impossible (no system bus)', ERROR_CODE.internalError],
  ])('LV-17: says what to do on the host when polkit is %s', async (_, code) => {
    const daemon = guardedDaemon([AUTH_TYPE.polkit], { code, message: 'authentication\nfailed' });

    const opening = LibvirtConnection.open(daemon.client, OPEN);

    await expect(opening).rejects.toMatchObject({
      name: 'LibvirtAuthError',
      authTypes: [AUTH_TYPE.polkit],
      message: expect.stringMatching(/authentication failed.*group/s),
      cause: { name: 'LibvirtError', code },
    });
  });

  it.each([ERROR_CODE.accessDenied, ERROR_CODE.authFailed, ERROR_CODE.operationDenied])(
    'takes an open refused with %i for a matter of authentication',
    async (code) => {
      const daemon = new FakeDaemon({
        connectOpen: (call, fake) => fake.refuse(call, { code, message: 'access denied' }),
      });

      await expect(LibvirtConnection.open(daemon.client, OPEN)).rejects.toMatchObject({
        name: 'LibvirtAuthError',
        // The daemon was not asked what it offers: nothing may be told of that.
        authTypes: [],
      });
    },
  );

  it('passes other refusals on and gives the stream back', async () => {
    const daemon = new FakeDaemon({
      connectOpen: (call, fake) => fake.refuse(call, { code: 5, message: 'no connection driver available' }),
    });

    await expect(LibvirtConnection.open(daemon.client, OPEN)).rejects.toMatchObject({
      name: 'LibvirtError',
      code: 5,
    });
    expect(daemon.client.destroyed).toBe(true);
  });

  it('does not open a third time when authentication did not help', async () => {
    const daemon = new FakeDaemon({
      connectOpen: (call, fake) =>
        fake.refuse(call, { code: ERROR_CODE.rpc, message: 'authentication required' }),
      authList: (call, fake) => fake.reply('authList', call, { types: [] }),
    });

    await expect(LibvirtConnection.open(daemon.client, OPEN)).rejects.toMatchObject({ code: 39 });
    expect(names(daemon)).toEqual(['connectOpen', 'authList', 'connectOpen']);
  });

  it('has one deadline for all of its calls', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const late = (answer: () => void): void => {
      setTimeout(answer, 40);
    };
    const daemon = new FakeDaemon({
      connectOpen: (call, fake) =>
        late(() => fake.refuse(call, { code: ERROR_CODE.rpc, message: 'authentication required' })),
      authList: (call, fake) => late(() => fake.reply('authList', call, { types: [AUTH_TYPE.polkit] })),
    });

    const opening = LibvirtConnection.open(daemon.client, { timeoutMs: 60 });
    const outcome = expect(opening).rejects.toMatchObject({
      name: 'LibvirtTimeoutError',
      procedure: 'authList',
    });
    await daemon.called('connectOpen');
    await vi.advanceTimersByTimeAsync(40);
    await daemon.called('authList');
    await vi.advanceTimersByTimeAsync(40);

    await outcome;
    expect(daemon.client.destroyed).toBe(true);
  });

  it('is given up with the reason of its signal', async () => {
    const daemon = new FakeDaemon({ connectOpen: () => undefined });
    const abort = new AbortController();
    const reason = new Error('the invocation ends');
    const opening = LibvirtConnection.open(daemon.client, { signal: abort.signal });

    abort.abort(reason);

    await expect(opening).rejects.toBe(reason);
    expect(daemon.client.destroyed).toBe(true);
  });

  it('rejects at once on a stream that is over already', async () => {
    const [client] = duplexPair();
    client.destroy();
    // Its last event has gone by: nobody will be told again.
    await once(client, 'close');

    await expect(LibvirtConnection.open(client)).rejects.toMatchObject({ name: 'LibvirtTransportError' });
  });
});
