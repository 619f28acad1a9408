/** What every kind of source offers once it is open, so that the reader above does not know where bytes come from. */

export interface OpenedSource {
  /** As announced by the source; null when it does not say. */
  readonly sizeBytes: number | null;
  /** Read once, in order. Ends early only by an error. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Lets go of the connection or file when the bytes are not wanted after all. Repeatable. */
  close(): Promise<void>;
  /** Asks the source for its size by other means; null when it cannot say. */
  askSize(): Promise<number | null>;
}
