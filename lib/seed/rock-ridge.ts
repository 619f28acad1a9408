/**
 * The Rock Ridge entries of a directory record: without them a guest sees `USER_DAT.;1` instead of `user-data`.
 * SUSP 1.12 (IEEE P1281) carries RRIP 1.12 (IEEE P1282): SP and ER once at the root, PX, TF and NM on every record.
 */
import { recordTime, writeBoth32 } from './iso-fields.ts';

/** Owned by root and readable by nobody else: user-data holds secrets, and cloud-init reads it as root. */
const FILE_MODE = 0o100400;
const DIRECTORY_MODE = 0o040555;

const EXTENSION_ID = 'IEEE_P1282';
const EXTENSION_DESCRIPTION = 'ROCK RIDGE INTERCHANGE PROTOCOL';

/** RRIP 4.1.6: which times a TF entry holds. */
const TF_MODIFY_ACCESS_ATTRIBUTES = 0x02 | 0x04 | 0x08;

/** Entries of the root's own record (`.`), the one place where SP says that the others may be believed. */
export function rootSelfEntries(time: Date): Buffer {
  return Buffer.concat([
    entry('SP', Buffer.from([0xbe, 0xef, 0])),
    posixAttributes(DIRECTORY_MODE, 2, 1),
    timestamps(time),
    extensionReference(),
  ]);
}

export function rootParentEntries(time: Date): Buffer {
  return Buffer.concat([posixAttributes(DIRECTORY_MODE, 2, 1), timestamps(time)]);
}

/** @param serial unique among the image's files: what a guest shows as the inode number */
export function fileEntries(name: string, serial: number, time: Date): Buffer {
  return Buffer.concat([posixAttributes(FILE_MODE, 1, serial), timestamps(time), alternateName(name)]);
}

/** SUSP 4: signature, length, version 1, data. */
function entry(signature: string, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from(signature, 'latin1'), Buffer.from([data.length + 4, 1]), data]);
}

function posixAttributes(mode: number, links: number, serial: number): Buffer {
  const data = Buffer.alloc(40);
  writeBoth32(data, 0, mode);
  writeBoth32(data, 8, links);
  writeBoth32(data, 32, serial);
  return entry('PX', data);
}

function timestamps(time: Date): Buffer {
  const moment = recordTime(time);
  return entry('TF', Buffer.concat([Buffer.from([TF_MODIFY_ACCESS_ATTRIBUTES]), moment, moment, moment]));
}

function alternateName(name: string): Buffer {
  return entry('NM', Buffer.concat([Buffer.from([0]), Buffer.from(name, 'latin1')]));
}

function extensionReference(): Buffer {
  return entry(
    'ER',
    Buffer.concat([
      Buffer.from([EXTENSION_ID.length, EXTENSION_DESCRIPTION.length, 0, 1]),
      Buffer.from(EXTENSION_ID + EXTENSION_DESCRIPTION, 'latin1'),
    ]),
  );
}
