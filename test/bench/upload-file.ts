/** The file that is uploaded: random, so that nothing on the way can shorten it, and its digest to compare copies with. */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const MIB = 1024 ** 2;
const CHUNK_BYTES = 8 * MIB;
/** The file, a copy on the host, and room to breathe. */
const COPIES = 3;

export interface UploadFile extends AsyncDisposable {
  readonly path: string;
  readonly bytes: number;
  /** @throws Error when the other file's bytes are not these */
  check(copy: string): Promise<void>;
}

/** @param hostFolder where copies will go. @throws Error when a disk is too full for it */
export async function createUploadFile(bytes: number, hostFolder: string): Promise<UploadFile> {
  for (const folder of [tmpdir(), hostFolder]) {
    const { bavail, bsize } = await statfs(folder);
    if (bavail * bsize < bytes * COPIES)
      throw new Error(`${folder}: less than ${COPIES} × ${bytes} bytes free`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-upload-'));
  const path = join(folder, 'image');
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const digest = await fill(path, bytes);
    return {
      path,
      bytes,
      check: async (copy) => {
        if ((await digestOf(copy)) !== digest)
          throw new Error('the bytes on the host are not those of the file');
      },
      [Symbol.asyncDispose]: remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function fill(path: string, bytes: number): Promise<string> {
  const digest = createHash('sha256');
  await using file = await open(path, 'w');
  for (let written = 0; written < bytes; written += CHUNK_BYTES) {
    const chunk = randomBytes(Math.min(CHUNK_BYTES, bytes - written));
    digest.update(chunk);
    await file.write(chunk);
  }
  return digest.digest('hex');
}

async function digestOf(path: string): Promise<string> {
  const digest = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) digest.update(chunk);
  return digest.digest('hex');
}
