import { beforeEach, describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import {
  LibvirtConnection,
  LibvirtTimeoutError,
  LibvirtTransportError,
} from '../../../../lib/libvirt/index.ts';
import { DaemonClient, rawVolumeXml, refusal } from './daemon-client.ts';

describe('a fault plan', () => {
  let daemon: EmbeddedLibvirt;
  let client: DaemonClient;
  const open = (timeoutMs = 5_000) => LibvirtConnection.open(daemon.connect(), { timeoutMs });

  beforeEach(async () => {
    daemon = createEmbeddedLibvirt({ name: 'host' });
    client = await DaemonClient.open(open());
    daemon.faults.reset();
  });

  it('counts calls over all connections, and the end of an upload as one of its own', async () => {
    const other = await DaemonClient.open(open());
    const vol = await other.createVolume(rawVolumeXml('a', 0));
    await client.upload(vol, [new Uint8Array(1), new Uint8Array(1)]);

    const log = daemon.faults.log.map(({ number, connection, name }) => [number, connection, name]);

    expect(log).toEqual([
      [1, 2, 'connectOpen'],
      [2, 2, 'storagePoolLookupByName'],
      [3, 2, 'storageVolCreateXml'],
      [4, 1, 'storageVolUpload'],
      [5, 1, 'storageVolUpload:finish'],
    ]);
    expect(daemon.faults.calls).toBe(5);
  });

  it('answers with an error instead of executing, at the nth of a procedure', async () => {
    daemon.faults.at('domainDefineXmlFlags', { kind: 'error', code: 38, int1: 28, domain: 18 }, 2);

    expect(await refusal(client.define({ name: 'a' }))).toBeUndefined();
    expect(await refusal(client.define({ name: 'b' }))).toEqual([38, 18, 28]);
    expect(await refusal(client.define({ name: 'c' }))).toBeUndefined();
    expect((await client.names()).sort()).toEqual(['a', 'c']);
  });

  it('cuts the connection before a call executes, or after', async () => {
    daemon.faults.atCall(1, { kind: 'cut-before' });
    await expect(client.define({ name: 'before' })).rejects.toThrow(LibvirtTransportError);

    client = await DaemonClient.open(open());
    daemon.faults.at('domainDefineXmlFlags', { kind: 'cut-after' }, 2);
    await expect(client.define({ name: 'after' })).rejects.toThrow(LibvirtTransportError);

    client = await DaemonClient.open(open());
    expect(await client.names()).toEqual(['after']);
  });

  it('cuts the end of an upload: the bytes are there, the confirmation is not', async () => {
    const vol = await client.createVolume(rawVolumeXml('a', 0));
    daemon.faults.at('storageVolUpload:finish', { kind: 'cut-after' });

    await expect(client.upload(vol, [new Uint8Array(9)])).rejects.toThrow(LibvirtTransportError);

    client = await DaemonClient.open(open());
    expect(await client.capacity(vol)).toBe(9n);
  });

  it('LV-03: fails an upload at its nth packet', async () => {
    const vol = await client.createVolume(rawVolumeXml('a', 0));
    daemon.faults.at('storageVolUpload:data', { kind: 'error', code: 38, int1: 28, domain: 38 }, 2);

    const chunks = [1, 2, 3].map((fill) => Buffer.alloc(262_120, fill));
    expect(await refusal(client.upload(vol, chunks))).toEqual([38, 38, 28]);

    expect(await client.capacity(vol)).toBe(262_120n);
  });

  it('leaves a call without an answer, though it was carried out', async () => {
    daemon.faults.at('domainDefineXmlFlags', { kind: 'no-answer' });
    const impatient = await DaemonClient.open(open(100));

    await expect(impatient.define({ name: 'a' })).rejects.toThrow(LibvirtTimeoutError);

    expect(await client.names()).toEqual(['a']);
  });

  it('delays a call so that a later one overtakes it', async () => {
    const order: string[] = [];
    daemon.faults.at('connectGetHostname', { kind: 'delay', ms: 30 });

    await Promise.all([
      client.connection.call('connectGetHostname', undefined).then(() => order.push('first')),
      client.connection.call('connectGetLibVersion', undefined).then(() => order.push('second')),
    ]);

    expect(order).toEqual(['second', 'first']);
  });

  it('runs a hook at a call, with its name, number and arguments', async () => {
    const seen: unknown[] = [];
    daemon.faults.atCall(2, {
      kind: 'hook',
      hook: async (step) => {
        seen.push([step.name, step.number, step.args]);
        daemon.state.domains.define((await import('./daemon-client.ts')).domainXml({ name: 'a' }));
      },
    });
    await client.names();

    expect(await refusal(client.lookup('a'))).toBeUndefined();
    expect(seen).toEqual([['domainLookupByName', 2, { name: 'a' }]]);
  });

  it('takes its faults back, or starts counting anew', async () => {
    daemon.faults.at('domainLookupByName', { kind: 'error', code: 1 }, 'every');
    expect(await refusal(client.lookup('a'))).toEqual([1, 10, -1]);
    expect(await refusal(client.lookup('a'))).toEqual([1, 10, -1]);

    daemon.faults.clear();
    expect(await refusal(client.lookup('a'))).toEqual([42, 10, -1]);
    expect(daemon.faults.calls).toBe(3);
    daemon.faults.reset();
    expect([daemon.faults.calls, daemon.faults.procedures]).toEqual([0, []]);
  });
});
