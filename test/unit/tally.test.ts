import { describe, expect, it } from 'vitest';
import { countReport } from '../tally.ts';

const file = (status: string, ...tests: string[]) => ({
  status,
  assertionResults: tests.map((each) => ({ status: each })),
});

describe('countReport', () => {
  it('counts tests', () => {
    const report = {
      testResults: [file('passed', 'passed', 'passed', 'skipped'), file('failed', 'failed', 'passed')],
    };

    expect(countReport(report, 1)).toEqual({ passed: 3, failed: 1 });
  });

  it('counts a file that failed to load, which has no tests', () => {
    expect(countReport({ testResults: [file('failed')] }, 1)).toEqual({ passed: 0, failed: 1 });
  });

  it('counts a run that failed although every test passed: an unhandled rejection', () => {
    expect(countReport({ testResults: [file('passed', 'passed')] }, 1)).toEqual({ passed: 1, failed: 1 });
  });

  it('counts a run that wrote no report', () => {
    expect(countReport(null, 0)).toEqual({ passed: 0, failed: 1 });
  });
});
