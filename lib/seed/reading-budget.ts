/**
 * What one piece of user-data may cost to read, all its parts together. Parts, archives in parts and texts in archives are each
 * a document; with a limit for each alone, a MiB of them would take as many seconds as there are parts.
 */

/**
 * No user-data that a person or a program writes comes near these. A request has seconds; a YAML entry takes some 10 µs,
 * whatever its length.
 */
export const READING_LIMITS = {
  /** Parts of messages, inner messages included, and texts of archives that differ. */
  parts: 1000,
  /** Lines and entries of YAML, by their marks. */
  entries: 30_000,
  /** Entries that merge keys bring, those of merged mappings included: merges of merges multiply. */
  mergedEntries: 30_000,
  /** The length of the texts that aliases stand for: each is looked at wherever it stands. */
  aliasedCharacters: 32 * 1024 * 1024,
  /** Looking for lines that have to be indented: a pass over the text for each of them. */
  lexedCharacters: 100 * 64 * 1024,
  lexemes: 1_000_000,
} as const;

export const TOO_MANY_PARTS = `more than ${READING_LIMITS.parts} parts, those of inner messages and archives included`;

export class ReadingBudget {
  readonly #spent = new Map<keyof typeof READING_LIMITS, number>();

  /** @returns whether the amount was still there */
  spend(resource: keyof typeof READING_LIMITS, amount = 1): boolean {
    const spent = (this.#spent.get(resource) ?? 0) + amount;
    this.#spent.set(resource, spent);
    return spent <= READING_LIMITS[resource];
  }
}
