/**
 * What bundles leave out of the packages they carry: parts that no function can reach, but that no bundler may drop by
 * itself, because CommonJS and client defaults name them. A cold start reads and compiles every byte of a bundle.
 */
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Plugin } from 'esbuild';

interface Omission {
  /** The end of the file's path, below node_modules. */
  readonly file: RegExp;
  /** What stands there instead: enough for the rest of the package to load. */
  readonly contents: string;
}

const OMISSIONS: readonly Omission[] = [
  // ssh2 is client, server, SFTP, agent and key generator in one; only its client with a private key is used.
  { file: /[/\\]ssh2[/\\]lib[/\\]protocol[/\\]SFTP\.js$/, contents: 'exports.SFTP = class SFTP {};' },
  { file: /[/\\]ssh2[/\\]lib[/\\]server\.js$/, contents: '' },
  { file: /[/\\]ssh2[/\\]lib[/\\]keygen\.js$/, contents: '' },
  { file: /[/\\]ssh2[/\\]lib[/\\]http-agents\.js$/, contents: '' },
  { file: /[/\\]ssh2[/\\]lib[/\\]agent\.js$/, contents: 'exports.isAgent = () => false;' },
  // Lambda puts the role's credentials into the environment. The default chain behind it (profiles, single sign-on,
  // assumed roles, instance metadata) brings three more AWS clients, and tries them all before it says no.
  {
    file: /[/\\]@aws-sdk[/\\]credential-provider-node[/\\]dist-[a-z]+[/\\]index\.js$/,
    contents: `export { fromEnv as defaultProvider } from '@aws-sdk/credential-provider-env';`,
  },
  // For calls whose members are event streams: neither SQS nor Secrets Manager has one.
  { file: /[/\\]@smithy[/\\]core[/\\]dist-es[/\\]submodules[/\\]event-streams[/\\]index\.js$/, contents: '' },
  // A whole cryptographic library, of which bcrypt-pbkdf (private keys with a passphrase) takes SHA-512. OpenSSL has one too.
  {
    file: /[/\\]tweetnacl[/\\]nacl-fast\.js$/,
    contents: `
      const { createHash } = require('node:crypto');
      exports.lowlevel = {
        crypto_hash: (out, message, length) => {
          out.set(createHash('sha512').update(message.subarray(0, length)).digest());
          return 0;
        },
      };`,
  },
];

/** One pass per file: esbuild asks the first loader whose filter matches. */
export const leaveOutUnreachable: Plugin = {
  name: 'leave-out-unreachable',
  setup: (build) => {
    for (const { file, contents } of OMISSIONS) {
      build.onLoad({ filter: file }, ({ path }) => ({ contents, resolveDir: dirname(path) }));
    }
    // Read by the AWS clients and by ssh2 for their version, and brought along whole.
    build.onLoad({ filter: /[/\\]node_modules[/\\].*[/\\]package\.json$/ }, async ({ path }) => {
      const { name, version } = JSON.parse(await readFile(path, 'utf8'));
      return { contents: JSON.stringify({ name, version }), loader: 'json' };
    });
  },
};
