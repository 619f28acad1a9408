/** The frames that virsh and a real libvirtd exchanged, as fixtures/record.ts kept them. */
import { readdirSync, readFileSync } from 'node:fs';
import * as z from 'zod';
import { type Frame, FrameDecoder } from '../../../lib/libvirt/framing.ts';
import { type ProcedureName, procedureName } from '../../../lib/libvirt/protocol.ts';

const recordingSchema = z.object({
  daemon: z.string(),
  client: z.string(),
  frames: z.array(z.object({ from: z.enum(['client', 'daemon']), procedure: z.string(), hex: z.string() })),
});

export interface RecordedFrame {
  readonly recording: string;
  readonly from: 'client' | 'daemon';
  readonly procedure: ProcedureName;
  readonly bytes: Uint8Array;
  readonly frame: Frame;
}

export function readRecordings(): readonly RecordedFrame[] {
  const directory = new URL('./fixtures/', import.meta.url);
  return readdirSync(directory)
    .filter((name) => name.endsWith('.json'))
    .flatMap((recording) => {
      const parsed = recordingSchema.parse(JSON.parse(readFileSync(new URL(recording, directory), 'utf8')));
      return parsed.frames.map(({ from, hex }) => {
        const bytes = Uint8Array.from(Buffer.from(hex, 'hex'));
        const frame = decodeSingleFrame(bytes);
        const procedure = procedureName(frame.header);
        if (procedure === undefined) {
          throw new Error(`${recording}: procedure ${frame.header.procedure} is not in the table`);
        }
        return { recording, from, procedure, bytes, frame };
      });
    });
}

export function decodeSingleFrame(bytes: Uint8Array): Frame {
  const frames: Frame[] = [];
  const decoder = new FrameDecoder();
  decoder.push(bytes, (frame) => frames.push(frame));
  const [frame] = frames;
  if (!frame || frames.length !== 1 || decoder.pendingBytes > 0) {
    throw new Error(`expected one whole frame in ${bytes.length} bytes`);
  }
  return frame;
}
