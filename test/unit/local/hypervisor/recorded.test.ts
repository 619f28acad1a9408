/**
 * What virsh really sent, sent again to the embedded daemon, which must answer in kind: the same success or the same
 * error code, error domain and errno as the libvirtd 9.0 of the recording. The frames are fixtures of the client's tests,
 * so client and embedded daemon cannot agree on the same mistake.
 */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import {
  createEmbeddedLibvirt,
  type EmbeddedLibvirt,
} from '../../../../infra/local/hypervisor/embedded-libvirt.ts';
import { startDomain } from '../../../../infra/local/hypervisor/state/start-domain.ts';
import { encodeFrame, type Frame, FrameDecoder } from '../../../../lib/libvirt/framing.ts';
import { MESSAGE_STATUS, MESSAGE_TYPE } from '../../../../lib/libvirt/message.ts';
import { type Procedure, type ProcedureName, procedures } from '../../../../lib/libvirt/protocol.ts';
import { decodeRemoteError } from '../../../../lib/libvirt/remote-error.ts';
import { formatUuid } from '../../../../lib/libvirt/uuid.ts';
import { type RecordedFrame, readRecordings } from '../../libvirt/recordings.ts';
import { AGENT_CHANNEL } from './daemon-client.ts';

/** Results that must be the same in every field; of the others only the fields' names and types. */
const SAME_RESULT: readonly ProcedureName[] = [
  'authList',
  'connectListAllDomains',
  'domainAgentCommand',
  'domainAgentSetResponseTimeout',
  'domainDefineXml',
  'domainDefineXmlFlags',
  'domainGetAutostart',
  'domainGetMetadata',
  'domainGetState',
  'domainLookupByName',
  'domainLookupByUuid',
  'storagePoolIsActive',
  'storagePoolLookupByName',
  'storageVolCreateXml',
  'storageVolGetPath',
  'storageVolLookupByName',
  'storageVolLookupByPath',
];
const SAME_XML: readonly ProcedureName[] = [
  'domainGetXmlDesc',
  'storageVolGetXmlDesc',
  'storagePoolGetXmlDesc',
];

/** Answers that say something of the recorded host which is no behaviour. */
const isOfThatHostOnly = ({ procedure, frame }: RecordedFrame): boolean =>
  // An empty ARP table is an error in libvirt 9.0, and its DHCP server had a lease for a guest that never ran.
  (procedure === 'domainInterfaceAddresses' && refusalOf(frame)?.[0] !== 86) ||
  // Its namespace had no system bus.
  procedure === 'authPolkit';

/** A recorded conversation with one call after another; serials tell what belongs together. */
class Replay {
  readonly #stream: Duplex;
  readonly #answers: Frame[] = [];
  /** Pools get a random UUID when they are defined: recorded → ours, in hexadecimal. */
  readonly #uuids = new Map<string, Uint8Array>();

  constructor(stream: Duplex) {
    this.#stream = stream;
    const decoder = new FrameDecoder();
    stream.on('data', (chunk: Buffer) => decoder.push(chunk, (frame) => this.#answers.push(frame)));
  }

  async call({ procedure, frame }: RecordedFrame): Promise<Frame> {
    const { args }: Procedure = procedures[procedure];
    this.#stream.write(encodeFrame(frame.header, args.encode(this.#translated(args.decode(frame.payload)))));
    return this.#answer(
      ({ header }) => header.serial === frame.header.serial && header.type === MESSAGE_TYPE.reply,
    );
  }

  /** Sends the client's packets of a stream; a download's only when data has come. */
  async packets(sent: readonly RecordedFrame[], serial: number, isDownload: boolean): Promise<Frame> {
    const isPacket = ({ header }: Frame): boolean =>
      header.serial === serial && header.type === MESSAGE_TYPE.stream;
    if (isDownload) {
      await this.#answer(isPacket);
    }
    for (const { frame } of sent) {
      this.#stream.write(encodeFrame(frame.header, frame.payload));
    }
    return this.#answer((frame) => isPacket(frame) && frame.header.status !== MESSAGE_STATUS.continue);
  }

  learn(recorded: unknown, ours: unknown): void {
    const [theirs, mine] = [poolUuid(recorded), poolUuid(ours)];
    if (theirs && mine) {
      this.#uuids.set(Buffer.from(theirs).toString('hex'), mine);
    }
  }

  #translated(value: unknown): unknown {
    if (value instanceof Uint8Array) {
      return this.#uuids.get(Buffer.from(value).toString('hex')) ?? value;
    }
    if (Array.isArray(value)) {
      return value.map((entry) => this.#translated(entry));
    }
    return isRecord(value)
      ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, this.#translated(entry)]))
      : value;
  }

  async #answer(matches: (frame: Frame) => boolean): Promise<Frame> {
    for (;;) {
      const found = this.#answers.find(matches);
      if (found) {
        return found;
      }
      await once(this.#stream, 'data');
    }
  }
}

describe('a recorded conversation with libvirtd 9.0, sent again to the embedded daemon', () => {
  let daemon: EmbeddedLibvirt;
  afterEach(() => daemon.close());

  const recorded = readRecordings();
  const names = [...new Set(recorded.map(({ recording }) => recording))];

  it.each(names)('%s: is answered in kind', async (name) => {
    const frames = recorded.filter(({ recording }) => recording === name);
    daemon = hostOf(name);
    const replay = new Replay(daemon.connect());
    const differences: unknown[] = [];
    let compared = 0;

    for (const call of frames.filter(({ frame }) => frame.header.type === MESSAGE_TYPE.call)) {
      const { serial } = call.frame.header;
      const belongs = frames.filter(({ frame }) => frame.header.serial === serial);
      const reply = belongs.find(({ frame }) => frame.header.type === MESSAGE_TYPE.reply);
      const ours = await replay.call(call);
      if (!reply || isOfThatHostOnly(reply)) {
        continue;
      }
      const [theirs, mine] = [outcome(call.procedure, reply.frame), outcome(call.procedure, ours)];
      replay.learn(theirs.result, mine.result);
      compared += 1;
      if (!matches(call.procedure, theirs, mine)) {
        differences.push({ procedure: call.procedure, serial, theirs, mine });
      }
      const packets = belongs.filter(({ frame }) => frame.header.type === MESSAGE_TYPE.stream);
      const end = packets.findLast(({ from }) => from === 'daemon');
      if (end && end.frame.header.status !== MESSAGE_STATUS.continue) {
        const sent = packets.filter(({ from }) => from === 'client');
        // What filled the recorded disk was too large to keep.
        const bytes = sent.length > 0 ? sent : [overflow(call)];
        const last = await replay.packets(bytes, serial, call.procedure === 'storageVolDownload');
        compared += 1;
        if (JSON.stringify(refusalOf(last)) !== JSON.stringify(refusalOf(end.frame))) {
          differences.push({
            procedure: call.procedure,
            serial,
            theirs: refusalOf(end.frame),
            mine: refusalOf(last),
          });
        }
      }
    }

    expect(differences).toEqual([]);
    expect(compared).toBeGreaterThan(0);
  });
});

/** The host as the recording found it. */
function hostOf(recording: string): EmbeddedLibvirt {
  const auth = { 'own-client.json': 'polkit-root', 'unprivileged.json': 'polkit' } as const;
  const daemon = createEmbeddedLibvirt({
    name: 'recorded',
    auth: recording in auth ? auth[recording as keyof typeof auth] : 'none',
    pools: [],
    storageBytes: 500_000,
    bootMs: recording === 'agent.json' ? 0 : 60_000,
  });
  daemon.state.files.makeDirectory('/var/lib/libvirt/full');
  if (recording === 'own-client.json') {
    // It went on where the storage recording ended.
    daemon.state.files.makeDirectory('/var/lib/libvirt/images');
    daemon.state.files.create('/var/lib/libvirt/images/a.raw', new Uint8Array(8192));
    daemon.state.pools.define({ name: 'lab', targetPath: '/var/lib/libvirt/images' }).start();
  }
  if (recording === 'agent.json') startGuest(daemon);
  return daemon;
}

/** The guest whose agent was asked; that it runs is all that counts. */
function startGuest({ state }: EmbeddedLibvirt): void {
  const lookup = readRecordings().find(
    ({ recording, from, procedure }) =>
      recording === 'agent.json' && from === 'daemon' && procedure === 'domainLookupByName',
  );
  if (!lookup) {
    throw new Error('agent.json does not look its domain up');
  }
  const { dom } = procedures.domainLookupByName.result.decode(lookup.frame.payload);
  const domain = state.domains.define(
    `<domain type='qemu'><name>${dom.name}</name><uuid>${formatUuid(dom.uuid)}</uuid><memory unit='MiB'>64</memory>
     <vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os><devices>${AGENT_CHANNEL}</devices></domain>`,
  );
  startDomain(state, domain, { paused: false }).guest.agent = 'running';
}

interface Outcome {
  readonly refusal: readonly number[] | undefined;
  readonly result: unknown;
}

function outcome(procedure: ProcedureName, frame: Frame): Outcome {
  const refusal = refusalOf(frame);
  const { result }: Procedure = procedures[procedure];
  return { refusal, result: refusal ? undefined : result.decode(frame.payload) };
}

function refusalOf({ header, payload }: Frame): readonly number[] | undefined {
  if (header.status !== MESSAGE_STATUS.error) {
    return undefined;
  }
  const { code, domain, int1 } = decodeRemoteError(payload, 'connectOpen');
  return [code, domain, int1];
}

function matches(procedure: ProcedureName, theirs: Outcome, mine: Outcome): boolean {
  const [expected, got] = [theirs, mine].map(({ refusal, result }) =>
    JSON.stringify([refusal, SAME_RESULT.includes(procedure) ? plain(result) : shape(result)]),
  );
  return expected === got && (!SAME_XML.includes(procedure) || isPartOf(mine.result, theirs.result));
}

/** UUIDs of pools differ, and so do the runtime ids of domains. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint' || value instanceof Uint8Array) {
    return typeof value;
  }
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  return isRecord(value)
    ? Object.fromEntries(
        Object.entries(value).map(([key, entry]) => [key, key === 'id' ? Number(entry) > 0 : plain(entry)]),
      )
    : value;
}

/** Names and types, of a list those of its first entry. */
function shape(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.slice(0, 1).map(shape);
  }
  return isRecord(value)
    ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, shape(entry)]))
    : typeof value;
}

/** Every line of our XML stands in theirs, in the same order; they say more. Sizes and times are each host's own. */
function isPartOf(mine: unknown, theirs: unknown): boolean {
  const lines = (result: unknown): string[] =>
    isRecord(result)
      ? String(result['xml'])
          .replace(/<source>\s*<\/source>/, '<source/>')
          .split('\n')
          .map((line) => line.replace(/>[\d.]+</g, '>0<').replace(/<uuid>.*/, ''))
      : [];
  const rest = lines(theirs);
  return lines(mine).every((line) => {
    const at = rest.indexOf(line);
    rest.splice(0, at + 1);
    return at >= 0;
  });
}

function overflow(call: RecordedFrame): RecordedFrame {
  const header = { ...call.frame.header, type: MESSAGE_TYPE.stream, status: MESSAGE_STATUS.continue };
  return { ...call, frame: { header, payload: Buffer.alloc(600_000, 0x5a) } };
}

function poolUuid(result: unknown): Uint8Array | undefined {
  const pool = isRecord(result) ? result['pool'] : undefined;
  return isRecord(pool) && pool['uuid'] instanceof Uint8Array ? pool['uuid'] : undefined;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !(value instanceof Uint8Array);
