import { describe, expect, it } from 'vitest';
import { LibvirtError } from '../../../lib/libvirt/errors.ts';
import { encodeFrame, FrameDecoder } from '../../../lib/libvirt/framing.ts';
import { MESSAGE_STATUS, MESSAGE_TYPE } from '../../../lib/libvirt/message.ts';
import { type Procedure, type ProcedureName, procedures } from '../../../lib/libvirt/protocol.ts';
import { decodeRemoteError, remoteError } from '../../../lib/libvirt/remote-error.ts';
import { type RecordedFrame, readRecordings } from './recordings.ts';

const recorded = readRecordings();
const isCall = ({ frame }: RecordedFrame): boolean => frame.header.type === MESSAGE_TYPE.call;
const isReply = ({ frame }: RecordedFrame): boolean => frame.header.type === MESSAGE_TYPE.reply;
const isError = ({ frame }: RecordedFrame): boolean =>
  frame.header.status === MESSAGE_STATUS.error && frame.payload.length > 0;

/** What the bytes mean by our schemas, written again by them. */
function reencode(entry: RecordedFrame): Uint8Array {
  const { header, payload } = entry.frame;
  if (isError(entry)) {
    return encodeFrame(header, remoteError.encode(remoteError.decode(payload)));
  }
  if (header.type === MESSAGE_TYPE.stream) {
    return encodeFrame(header, payload);
  }
  const { args, result }: Procedure = procedures[entry.procedure];
  const schema = isCall(entry) ? args : result;
  return encodeFrame(header, schema.encode(schema.decode(payload)));
}

describe('frames recorded between virsh and a real libvirtd', () => {
  const names = [...new Set(recorded.map(({ procedure }) => procedure))].sort();

  it.each(names)('%s decodes and encodes to the same bytes', (name) => {
    const entries = recorded.filter(({ procedure }) => procedure === name);

    for (const entry of entries) {
      expect(Buffer.from(reencode(entry)).toString('hex')).toBe(Buffer.from(entry.bytes).toString('hex'));
    }
  });

  it('cover every procedure of the table with a call and, but for polkit, a successful reply', () => {
    const seen = (matches: (entry: RecordedFrame) => boolean): Set<string> =>
      new Set(recorded.filter(matches).map(({ procedure }) => procedure));
    const table = Object.keys(procedures).sort();

    expect([...seen(isCall)].sort()).toEqual(table);
    // A polkit that says yes needs a system bus, which the recorder's namespace has not.
    expect([...seen((entry) => isReply(entry) && !isError(entry))].sort()).toEqual(
      table.filter((name) => name !== 'authPolkit'),
    );
  });

  it('hold the daemon’s errors with their codes', () => {
    const errors = recorded
      .filter(isError)
      .map(({ frame, procedure }) => decodeRemoteError(frame.payload, procedure));

    const codes = (name: ProcedureName): number[] =>
      errors.filter(({ procedure }) => procedure === name).map(({ code }) => code);
    expect(errors.every((error) => error instanceof LibvirtError && error.message.length > 0)).toBe(true);
    expect(codes('domainLookupByName')).toContain(42);
    expect(codes('domainDefineXml')).toContain(9);
    expect(codes('domainGetMetadata')).toContain(80);
    expect(codes('domainUndefineFlags')).toContain(8);
    expect(codes('domainInterfaceAddresses')).toContain(86);
    expect(codes('storagePoolLookupByName')).toContain(49);
    expect(codes('storageVolLookupByName')).toContain(50);
    expect(codes('storageVolCreateXml')).toContain(90);
    expect(codes('interfaceLookupByName')).toContain(57);
    expect(codes('connectOpen')).toEqual([39, 39]);
  });

  it('carry errno 28 in int1 when the disk filled up during an upload', () => {
    const full = recorded.find((entry) => isError(entry) && entry.procedure === 'storageVolUpload');

    const error = full && decodeRemoteError(full.frame.payload, full.procedure);

    expect(error).toMatchObject({ code: 38, int1: 28, message: expect.stringContaining('No space left') });
  });

  it('come out of the decoder the same in one chunk and byte by byte', () => {
    const transcript = Buffer.concat(
      recorded.filter(({ from }) => from === 'daemon').map(({ bytes }) => bytes),
    );
    const decode = (chunks: Iterable<Uint8Array>): string[] => {
      const frames: string[] = [];
      const decoder = new FrameDecoder();
      for (const chunk of chunks) {
        decoder.push(chunk, ({ header, payload }) =>
          frames.push(JSON.stringify([header, Buffer.from(payload).toString('base64')])),
        );
      }
      return frames;
    };

    const atOnce = decode([transcript]);
    const byteByByte = decode([...transcript].map((byte) => Uint8Array.of(byte)));

    expect(atOnce.length).toBe(recorded.filter(({ from }) => from === 'daemon').length);
    expect(byteByByte).toEqual(atOnce);
  });
});
