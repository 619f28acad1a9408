/**
 * Volume descriptors (ECMA-119 8): the primary one with the ISO tree, the supplementary one with the Joliet tree,
 * and the terminator. Byte offsets are those of the standard, counted from 0.
 */
import { PATH_TABLE_BYTES, rootRecord } from './iso-directory.ts';
import {
  descriptorTime,
  NO_DESCRIPTOR_TIME,
  SECTOR_BYTES,
  ucs2be,
  writeBoth16,
  writeBoth32,
} from './iso-fields.ts';

/** Where one tree of the image stands, in sectors. */
export interface Tree {
  readonly littleEndianPathTable: number;
  readonly bigEndianPathTable: number;
  readonly rootDirectory: number;
  readonly rootDirectoryBytes: number;
}

export interface Volume {
  readonly volumeId: string;
  readonly sectors: number;
  readonly time: Date;
}

/** A field of text in the descriptor's character set, filled up with spaces. */
type TextField = (text: string, bytes: number) => Buffer;

const SYSTEM_ID = 'LINUX';
export const APPLICATION_ID = 'KVM-FUNCTIONS';

/** Joliet, section 3.1: UCS-2 level 3. */
const JOLIET_ESCAPE = Buffer.from('%/E', 'latin1');

export function primaryDescriptor(volume: Volume, tree: Tree): Buffer {
  return descriptor(1, volume, tree, (text, bytes) => Buffer.from(text.padEnd(bytes, ' '), 'latin1'));
}

export function jolietDescriptor(volume: Volume, tree: Tree): Buffer {
  const sector = descriptor(2, volume, tree, (text, bytes) =>
    // A field of odd length keeps one zero byte at its end: half a character cannot be a space.
    Buffer.concat([ucs2be(text.padEnd(Math.floor(bytes / 2), ' ')), Buffer.alloc(bytes % 2)]),
  );
  JOLIET_ESCAPE.copy(sector, 88);
  return sector;
}

export function terminator(): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.writeUInt8(255, 0);
  sector.write('CD001', 1, 'latin1');
  sector.writeUInt8(1, 6);
  return sector;
}

function descriptor(type: 1 | 2, volume: Volume, tree: Tree, text: TextField): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.writeUInt8(type, 0);
  sector.write('CD001', 1, 'latin1');
  sector.writeUInt8(1, 6);
  text(SYSTEM_ID, 32).copy(sector, 8);
  text(volume.volumeId, 32).copy(sector, 40);
  writeBoth32(sector, 80, volume.sectors);
  writeBoth16(sector, 120, 1);
  writeBoth16(sector, 124, 1);
  writeBoth16(sector, 128, SECTOR_BYTES);
  writeBoth32(sector, 132, PATH_TABLE_BYTES);
  sector.writeUInt32LE(tree.littleEndianPathTable, 140);
  sector.writeUInt32BE(tree.bigEndianPathTable, 148);
  rootRecord(tree.rootDirectory, tree.rootDirectoryBytes, volume.time).copy(sector, 156);
  text('', 128).copy(sector, 190);
  text('', 128).copy(sector, 318);
  text('', 128).copy(sector, 446);
  text(APPLICATION_ID, 128).copy(sector, 574);
  text('', 37).copy(sector, 702);
  text('', 37).copy(sector, 739);
  text('', 37).copy(sector, 776);
  descriptorTime(volume.time).copy(sector, 813);
  descriptorTime(volume.time).copy(sector, 830);
  NO_DESCRIPTOR_TIME.copy(sector, 847);
  descriptorTime(volume.time).copy(sector, 864);
  sector.writeUInt8(1, 881);
  return sector;
}
