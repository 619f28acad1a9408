/** The pong that carries an acknowledgement: when it is sent, and above all when it is not. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LibvirtConnection } from '../../../lib/libvirt/connection.ts';
import { isKeepalive } from '../../../lib/libvirt/message.ts';
import { eventually, FakeDaemon } from './fake-daemon.ts';

let daemon: FakeDaemon;
let connection: LibvirtConnection;
beforeEach(async () => {
  daemon = new FakeDaemon();
  connection = await LibvirtConnection.open(daemon.client);
});
afterEach(() => connection.close());

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

describe('with two calls in flight', () => {
  const askBoth = () => [
    connection.call('connectGetLibVersion', undefined),
    connection.call('connectGetHostname', undefined),
  ];

  it('the first reply is followed by one pong, since sshd may hold the second back', async () => {
    const [version, hostname] = askBoth();
    daemon.reply('connectGetLibVersion', await daemon.called('connectGetLibVersion'), { libVer: 9_000_000n });
    await version;

    await eventually(() => daemon.others.length > 0);
    await turns(20);

    expect(daemon.others.map((frame) => isKeepalive(frame, 'pong'))).toEqual([true]);
    daemon.reply('connectGetHostname', await daemon.called('connectGetHostname'), { hostname: 'a' });
    await hostname;
  });

  it('no pong is sent when whoever got the first reply sends something itself', async () => {
    const [version, hostname] = askBoth();
    const next = version?.then(() => connection.call('connectGetVersion', undefined));
    daemon.reply('connectGetLibVersion', await daemon.called('connectGetLibVersion'), { libVer: 9_000_000n });

    const call = await daemon.called('connectGetVersion');
    await turns(20);

    expect(daemon.others).toEqual([]);
    daemon.reply('connectGetVersion', call, { hvVer: 7_002_000n });
    daemon.reply('connectGetHostname', await daemon.called('connectGetHostname'), { hostname: 'a' });
    await Promise.all([hostname, next]);
  });
});

it('the reply to the only call is followed by nothing', async () => {
  const version = connection.call('connectGetLibVersion', undefined);
  daemon.reply('connectGetLibVersion', await daemon.called('connectGetLibVersion'), { libVer: 9_000_000n });
  await version;
  await turns(20);

  expect(daemon.others).toEqual([]);
});
