/**
 * What runs inside a started domain, as far as the host can see it: after its boot time it holds an address, and if it
 * found its seed its guest agent answers. All of it follows from the clock that is passed in; nothing here sets a timer.
 */
import type { HostFiles } from './host-files.ts';
import { ISO_LABEL_BYTES, readIsoLabel } from './iso-label.ts';

/** What a domain was started with, read from its disks at that moment. */
export interface BootReport {
  readonly at: number;
  readonly disks: readonly {
    readonly target: string;
    readonly path: string;
    readonly chain: readonly string[];
  }[];
  /** The disk that cloud-init would take as its NoCloud seed, if one has that label. */
  readonly seed: { readonly path: string; readonly sha256: string } | undefined;
}

/**
 * `running`: answers. `stuck`: the channel is open and nobody answers, which blocks whoever asks. `absent`: not
 * installed. What a guest does by itself is `running` when it found a seed, else `absent`.
 */
export type AgentBehaviour = 'running' | 'stuck' | 'absent';

export interface Guest {
  readonly boot: BootReport;
  readonly bootedAt: number;
  readonly cloudInit: CloudInitRun;
  agent: AgentBehaviour;
  /** Commands that the agent's configuration does not permit, as the packages of some distributions have it. */
  readonly deniedCommands: Set<string>;
  /** What the agent says instead of its answer: a guest is not to be believed. */
  agentAnswer: ((command: string) => string) | undefined;
  /** Files that differ from what a guest has by itself; null for one that is not there. */
  readonly files: Map<string, Uint8Array | null>;
  /** Files that the agent holds open, by handle. */
  readonly openFiles: Map<number, OpenFile>;
  /** False: it never asks for an address. */
  hasNetwork: boolean;
  /** False: it ignores ACPI shutdown requests. */
  honoursPowerButton: boolean;
}

/** cloud-init's one run in a boot that found a seed; without one it does not run at all. */
export interface CloudInitRun {
  readonly doneAt: number | undefined;
  /** As it names its data source; null when none was found. */
  datasource: string | null;
  /** The stage that `errors` are of. */
  failedStage: 'init-local' | 'init' | 'modules-config' | 'modules-final';
  /** Its own texts, which may quote user-data. */
  errors: readonly string[];
  recoverableErrors: Readonly<Record<string, readonly string[]>>;
}

export interface OpenFile {
  readonly bytes: Uint8Array;
  offset: number;
}

/** cloud-init accepts the label in lower or upper case, not mixed. */
const SEED_LABELS = ['cidata', 'CIDATA'];

/** Reads the disks, which exist already. */
export function bootGuest(
  disks: readonly { readonly target: string; readonly path: string; readonly chain: readonly string[] }[],
  files: HostFiles,
  {
    now,
    bootMs,
    cloudInitMs,
  }: { readonly now: number; readonly bootMs: number; readonly cloudInitMs: number },
): Guest {
  const seedPath = disks
    .map((disk) => disk.path)
    .find((path) => {
      const label = readIsoLabel(files.get(path)?.bytes.read(0, ISO_LABEL_BYTES) ?? new Uint8Array(0));
      return label !== undefined && SEED_LABELS.includes(label);
    });
  const seed = seedPath === undefined ? undefined : { path: seedPath, file: files.get(seedPath) };
  return {
    boot: {
      at: now,
      disks,
      seed: seed?.file && { path: seed.path, sha256: seed.file.bytes.sha256() },
    },
    bootedAt: now + bootMs,
    cloudInit: {
      doneAt: seed ? now + bootMs + cloudInitMs : undefined,
      datasource: 'DataSourceNoCloud [seed=/dev/vdb][dsmode=net]',
      failedStage: 'modules-final',
      errors: [],
      recoverableErrors: {},
    },
    agent: seed ? 'running' : 'absent',
    deniedCommands: new Set(),
    agentAnswer: undefined,
    files: new Map(),
    openFiles: new Map(),
    hasNetwork: true,
    honoursPowerButton: true,
  };
}
