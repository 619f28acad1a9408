import { defineConfig } from 'vitest/config';

/** One project per kind of test, so that `npx vitest --project unit` runs what its name says. */
export default defineConfig({
  test: {
    projects: ['unit', 'contract', 'faults', 'infra', 'lab'].map((name) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: name === 'lab' ? 600_000 : 180_000,
        hookTimeout: name === 'lab' ? 900_000 : 120_000,
        fileParallelism: name !== 'lab',
        globalSetup: name === 'lab' ? ['test/lab/global-setup.ts'] : [],
      },
    })),
  },
});
