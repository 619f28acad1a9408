/** An image from this machine, for local use: the lab and an air-gapped site serve it from a directory. */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { ImageError } from './image-error.ts';
import type { ImageSource } from './image-source.ts';
import type { OpenedSource } from './opened-source.ts';

const READ_BYTES = 256 * 1024;

/** @throws ImageError `refused` when it is missing, unreadable or no regular file */
export async function openFileSource(source: ImageSource, signal: AbortSignal): Promise<OpenedSource> {
  const file = await openRegularFile(source);
  const { size } = await file.stat();
  return {
    sizeBytes: size,
    chunks: file.createReadStream({ highWaterMark: READ_BYTES, autoClose: false, signal }),
    close: () => file.close(),
    askSize: () => Promise.resolve(size),
  };
}

async function openRegularFile(source: ImageSource): Promise<FileHandle> {
  let file: FileHandle;
  try {
    // Without O_NONBLOCK the open of a FIFO would wait for a writer.
    file = await open(fileURLToPath(source.url), constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw new ImageError('refused', `image ${source.name}: its file cannot be opened`, { cause });
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new ImageError('refused', `image ${source.name}: it is not a regular file`);
}
