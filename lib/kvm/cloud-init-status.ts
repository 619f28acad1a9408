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
}

/** In the order in which they run; older versions have fewer, and a name that is none of these is not repeated. */
const STAGES = ['init-local', 'init', 'modules-init', 'modules-config', 'modules-final'] as const;

export const UNREADABLE: CloudInitStatus = {
  cloudInit: 'unknown',
  detail: 'cloud-init’s status in the guest cannot be understood',
};

/**
 * @param text the content of status.json
 * @param isOver whether `/run/cloud-init/result.json` is there, which cloud-init writes last
 */
export function readCloudInitStatus(text: string, isOver: boolean): CloudInitStatus {
  const document = parseJson(text);
  const status = isRecord(document) ? document['v1'] : undefined;
  if (!isRecord(status)) return UNREADABLE;
  const stages = STAGES.map((name) => readStage(name, status[name])).filter((stage) => stage !== null);
  const errors = describeCounts(stages, 'errors');
  const warnings = describeCounts(stages, 'warnings');
  const running = isOver ? null : describeRunning(status['stage'], stages);

  // In its order: an error counts before all stages have run, a warning only at the end.
  if (errors !== null) {
    return { cloudInit: 'error', detail: `errors ${errors}${running === null ? '' : `; ${running}`}` };
  }
  if (running !== null) return { cloudInit: 'running', detail: running };
  if (stages.every(({ hasBegun }) => !hasBegun)) return UNREADABLE;
  return warnings === null
    ? { cloudInit: 'done', detail: null }
    : { cloudInit: 'degraded', detail: `recoverable errors ${warnings}` };
}

interface Stage {
  readonly name: (typeof STAGES)[number];
  readonly hasBegun: boolean;
  readonly hasEnded: boolean;
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
