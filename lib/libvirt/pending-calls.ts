/**
 * Who waits for which serial. The daemon answers calls in any order, may answer one that was given up, and is not
 * believed when it answers what was never asked.
 */
import { LibvirtTransportError } from './errors.ts';
import type { Frame } from './framing.ts';
import { MESSAGE_STATUS, MESSAGE_TYPE } from './message.ts';
import { type ProcedureName, procedureName } from './protocol.ts';
import { decodeRemoteError } from './remote-error.ts';

export interface Waiter {
  readonly procedure: ProcedureName;
  /** The successful reply. May throw when it cannot be decoded: that ends the connection. */
  onReply(payload: Uint8Array): void;
  /** The daemon's error or the connection's end; nothing comes after it. */
  onError(error: Error): void;
  /** Only for streams: a packet that is not an error. With it the serial stays until `remove`. */
  onPacket?(status: number, payload: Uint8Array): void;
}

export class PendingCalls {
  readonly #waiters = new Map<number, Waiter>();
  #lastSerial = 0;

  get size(): number {
    return this.#waiters.size;
  }

  /** Serials begin at 1: keepalives carry 0. */
  nextSerial(): number {
    this.#lastSerial += 1;
    return this.#lastSerial;
  }

  /** A second waiter for a serial takes the place of the first. */
  add(serial: number, waiter: Waiter): void {
    this.#waiters.set(serial, waiter);
  }

  /** The call is answered or given up: what still comes for it is dropped. */
  remove(serial: number): void {
    this.#waiters.delete(serial);
  }

  /** @throws LibvirtTransportError or XdrError when the connection cannot go on after this message. */
  route({ header, payload }: Frame): void {
    const { type, serial, program, procedure, status } = header;
    if (type === MESSAGE_TYPE.message) {
      // An event. None was asked for; whatever it says decides nothing here.
      return;
    }
    if (type !== MESSAGE_TYPE.reply && type !== MESSAGE_TYPE.stream) {
      throw new LibvirtTransportError(`a message of type ${type} from the daemon`);
    }
    const waiter = this.#waiters.get(serial);
    if (!waiter) {
      if (serial === 0 || serial > this.#lastSerial) {
        throw new LibvirtTransportError(`an answer to call ${serial}, which was never made`);
      }
      // Given up before, or answered twice.
      return;
    }
    if (procedureName(header) !== waiter.procedure) {
      throw new LibvirtTransportError(
        `an answer of program 0x${program.toString(16)}, procedure ${procedure} to ${waiter.procedure}`,
      );
    }
    if (status === MESSAGE_STATUS.error) {
      // Decoded before the waiter goes: if that fails, it must still be there to hear of the connection's end.
      const error = decodeRemoteError(payload, waiter.procedure);
      this.#waiters.delete(serial);
      waiter.onError(error);
    } else if (type === MESSAGE_TYPE.stream) {
      this.#packet(waiter, status, payload);
    } else {
      this.#reply(serial, waiter, status, payload);
    }
  }

  rejectAll(reason: Error): void {
    const waiters = [...this.#waiters.values()];
    this.#waiters.clear();
    for (const waiter of waiters) {
      waiter.onError(reason);
    }
  }

  #reply(serial: number, waiter: Waiter, status: number, payload: Uint8Array): void {
    if (status !== MESSAGE_STATUS.ok) {
      throw new LibvirtTransportError(`a reply of status ${status} to ${waiter.procedure}`);
    }
    waiter.onReply(payload);
    if (!waiter.onPacket) {
      this.#waiters.delete(serial);
    }
  }

  #packet(waiter: Waiter, status: number, payload: Uint8Array): void {
    if (!waiter.onPacket || (status !== MESSAGE_STATUS.ok && status !== MESSAGE_STATUS.continue)) {
      throw new LibvirtTransportError(`a stream packet of status ${status} for ${waiter.procedure}`);
    }
    waiter.onPacket(status, payload);
  }
}
