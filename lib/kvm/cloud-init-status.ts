/**
 * What `cloud-init status` makes of the file it reads itself, `/run/cloud-init/status.json`: a record for each stage,
 * and the stage that runs now. Pure. The file is the guest's and may hold anything; of its texts none is passed on, since
 * cloud-init quotes user-data in its errors.
 */
import type { CloudInitState } from '../provider/instance.ts';
import { isRecord, parseJson } from './untrusted-json.ts';

export interface CloudInitStatus {
  readonly cloudInit: Exclude<CloudInitState, 'disabled'>;
  /** In our own words; null when there is nothing to add. */
  readonly detail: string | null;
  /**
   * cloud-init has run to its end in this boot and took its seed into account: it reads it no more before the next boot.
   * Errors in the later stages do not matter; one in the stages that look for the seed leaves it for the next boot.
   */
  readonly isSeedUsed: boolean;
}

/** In the order in which they run; older versions have fewer, and a name that is none of these is not repeated. */
const STAGES = ['init-local', 'init', 'modules-init', 'modules-config', 'modules-final'] as const;

/** They find the data source and take user-data from it. */
const SEED_STAGES: readonly string[] = ['init-local', 'init'];
/**
 * The text of the data source that reads a seed of ours, as `DataSourceNoCloud [seed=/dev/vdb][dsmode=net]`. It names all
 * that it merged, in order: what the image brings (a directory, the kernel's command line), the disk, and last a
 * `seedfrom`, which replaces user-data.
 */
const SEED_SOURCE = /^DataSourceNoCloud(?:Net)? \[seed=(?:[^\],]*,)*\/dev\/[^\],/]+\]/;

const SEED_NOT_USED = 'cloud-init did not use the seed';
const SEED_IN_DOUBT = 'cloud-init may not have used the seed';

export const UNREADABLE: CloudInitStatus = {
  cloudInit: 'unknown',
  detail: 'cloud-init’s status in the guest cannot be understood',
  isSeedUsed: false,
};

/**
 * @param text the content of status.json
 * @param hasResult whether `/run/cloud-init/result.json` was there before that was read: cloud-init writes it last
 */
export function readCloudInitStatus(text: string, hasResult: boolean): CloudInitStatus {
  const document = parseJson(text);
  const status = isRecord(document) ? document['v1'] : undefined;
  if (!isRecord(status)) return UNREADABLE;
  const stages = STAGES.map((name) => readStage(name, status[name])).filter((stage) => stage !== null);
  // A stage that runs beside a result is the next boot's, which began after the result was seen.
  const isOver = hasResult && typeof status['stage'] !== 'string';
  if (!isOver) return readRunning(status['stage'], stages);
  return readOver(doubtOfSeed(status['datasource'], stages), stages);
}

/** In cloud-init's order: an error counts before all stages have run, a warning only at the end. */
function readRunning(stage: unknown, stages: readonly Stage[]): CloudInitStatus {
  const running = describeRunning(stage, stages);
  const errors = describeCounts(stages, 'errors');
  return errors === null
    ? { cloudInit: 'running', detail: running, isSeedUsed: false }
    : { cloudInit: 'error', detail: `errors ${errors}; ${running}`, isSeedUsed: false };
}

function readOver(doubt: string | null, stages: readonly Stage[]): CloudInitStatus {
  const isSeedUsed = doubt === null;
  const errors = describeCounts(stages, 'errors');
  const warnings = describeCounts(stages, 'warnings');
  const doubts = doubt === null ? [] : [doubt];
  if (errors !== null) {
    return { cloudInit: 'error', detail: [`errors ${errors}`, ...doubts].join('; '), isSeedUsed };
  }
  if (stages.every(({ hasBegun }) => !hasBegun)) return UNREADABLE;
  if (warnings !== null) {
    const detail = [`recoverable errors ${warnings}`, ...doubts].join('; ');
    return { cloudInit: 'degraded', detail, isSeedUsed };
  }
  return { cloudInit: 'done', detail: doubt, isSeedUsed };
}

/**
 * Why the seed is kept; null when it was certainly used. The stages that take it run modules as well (write_files, mounts),
 * so errors there need not concern it, but nothing in the status tells them apart.
 */
function doubtOfSeed(datasource: unknown, stages: readonly Stage[]): string | null {
  if (typeof datasource !== 'string' || !SEED_SOURCE.test(datasource)) return SEED_NOT_USED;
  const looked = stages.filter(({ name }) => SEED_STAGES.includes(name));
  const isCertain =
    looked.length === SEED_STAGES.length && looked.every(({ hasEnded, hasErrors }) => hasEnded && !hasErrors);
  return isCertain ? null : SEED_IN_DOUBT;
}

interface Stage {
  readonly name: (typeof STAGES)[number];
  readonly hasBegun: boolean;
  readonly hasEnded: boolean;
  /** Also where that is no list: what cannot be read is no proof that there are none. */
  readonly hasErrors: boolean;
  readonly errors: number;
  readonly warnings: number;
}

function readStage(name: Stage['name'], value: unknown): Stage | null {
  if (!isRecord(value)) return null;
  const { start, finished, errors, recoverable_errors: recoverable } = value;
  const lists = isRecord(recoverable) ? Object.values(recoverable) : [];
  return {
    name,
    hasBegun: isTime(start),
    hasEnded: isTime(finished),
    hasErrors: !Array.isArray(errors) || errors.length > 0,
    errors: lengthOf(errors),
    warnings: lists.reduce((sum: number, list) => sum + lengthOf(list), 0),
  };
}

function describeRunning(stage: unknown, stages: readonly Stage[]): string {
  const named = STAGES.find((name) => name === stage);
  const last = stages.findLast(({ hasBegun, hasEnded }) => hasBegun && !hasEnded)?.name;
  const at = named ?? last;
  return at === undefined ? 'between two stages' : `in stage ${at}`;
}

/** `in modules-config (2), modules-final (1)`; null when there are none. */
function describeCounts(stages: readonly Stage[], key: 'errors' | 'warnings'): string | null {
  const found = stages.filter((stage) => stage[key] > 0).map((stage) => `${stage.name} (${stage[key]})`);
  return found.length === 0 ? null : `in ${found.join(', ')}`;
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && value > 0;
}
