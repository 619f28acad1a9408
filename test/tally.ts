/** The true count of a Vitest run: tests, files that failed to load, and a failure that belongs to no test. */

export interface Tally {
  readonly passed: number;
  readonly failed: number;
}

export interface VitestReport {
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

/** @param report null when Vitest wrote none, which is a failure whatever its exit code. */
export function countReport(report: VitestReport | null, exitCode: number): Tally {
  if (report === null) return { passed: 0, failed: 1 };
  let passed = 0;
  let failed = 0;
  for (const file of report.testResults) {
    const failures = file.assertionResults.filter(({ status }) => status === 'failed').length;
    passed += file.assertionResults.filter(({ status }) => status === 'passed').length;
    // A file that could not be loaded has no tests that could have failed.
    failed += failures === 0 && file.status === 'failed' ? 1 : failures;
  }
  // An unhandled rejection fails the run and no test.
  if (exitCode !== 0 && failed === 0) failed = 1;
  return { passed, failed };
}
