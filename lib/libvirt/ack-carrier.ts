/**
 * Sends a little something when replies are awaited and there is nothing else to send. Behind a forwarded socket sshd
 * keeps Nagle's algorithm on: of several replies the first comes at once, the others when it is acknowledged, and a
 * kernel that has nothing to send takes 40 ms for that. Any packet of ours carries the acknowledgement along; an
 * unasked-for keepalive pong is one that libvirt reads and forgets, and that is answered by nothing.
 */
export class AckCarrier {
  readonly #isAwaiting: () => boolean;
  readonly #send: () => void;
  #due: NodeJS.Immediate | undefined;

  /** @param isAwaiting whether more replies are wanted; @param send sends the pong. */
  constructor(isAwaiting: () => boolean, send: () => void) {
    this.#isAwaiting = isAwaiting;
    this.#send = send;
  }

  /** A reply came. Whoever waited for it has the rest of this turn to send something that is of use as well. */
  received(): void {
    this.#due ??= setImmediate(() => {
      this.#due = undefined;
      if (this.#isAwaiting()) this.#send();
    });
  }

  /** Something went out, and an acknowledgement with it. */
  sent(): void {
    clearImmediate(this.#due);
    this.#due = undefined;
  }
}
