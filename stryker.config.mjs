/**
 * Mutation testing of the libvirt client (`npm run mutation`): Stryker changes the code in small ways and reports each
 * change that no test notices. One folder, since that takes an hour on two busy cores; single files with
 * `npm run mutation -- --mutate lib/libvirt/framing.ts`. The tables of numbers are left out: recorded frames judge those.
 *
 * Bounded on purpose, because a mutant can be a loop that allocates without end, and buffers are no part of the heap: one
 * worker with a limit for its heap, a limit of time for each mutant, and the script's `ulimit` on the address space. Within
 * the limit of time a client that never stops sending fills gigabytes: in the tests, sources and the fake daemon have an end.
 */
export default {
  testRunner: 'vitest',
  plugins: ['@stryker-mutator/vitest-runner'],
  vitest: { configFile: 'vitest.mutation.config.ts', related: false },
  mutate: ['lib/libvirt/*.ts', '!lib/libvirt/{index,constants,error-codes,objects,protocol}.ts'],
  concurrency: 1,
  testRunnerNodeArgs: ['--max-old-space-size=512'],
  timeoutMS: 10_000,
  timeoutFactor: 2,
  reporters: ['clear-text', 'html'],
};
