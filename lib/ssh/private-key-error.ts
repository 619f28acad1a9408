/**
 * A private key that cannot be used. Never carries the key: no excerpt, and no `cause`, because the libraries' own
 * messages quote what they read. The configuration adds the name of the secret.
 */

/** What is wrong, for whoever wants to act on it; the message says it in words together with the remedy. */
export type PrivateKeyProblem =
  | 'empty'
  | 'public-key'
  | 'newlines-lost'
  | 'indented'
  | 'cut'
  | 'damaged'
  | 'passphrase-missing'
  | 'passphrase-wrong'
  | 'unsupported';

export class PrivateKeyError extends Error {
  override readonly name = 'PrivateKeyError';
  readonly problem: PrivateKeyProblem;

  constructor(problem: PrivateKeyProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}
