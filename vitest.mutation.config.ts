import { defineConfig } from 'vitest/config';

/** What judges the mutants of stryker.config.mjs: the fuzz would take its ten seconds for each of them. */
export default defineConfig({
  test: {
    include: ['test/unit/libvirt/**/*.test.ts'],
    exclude: ['test/unit/libvirt/fuzz.test.ts'],
    testTimeout: 8_000,
  },
});
