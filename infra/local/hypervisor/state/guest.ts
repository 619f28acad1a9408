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
  agent: AgentBehaviour;
  /** False: it never asks for an address. */
  hasNetwork: boolean;
  /** False: it ignores ACPI shutdown requests. */
  honoursPowerButton: boolean;
}

/** cloud-init accepts the label in lower or upper case, not mixed. */
const SEED_LABELS = ['cidata', 'CIDATA'];

/** Reads the disks, which exist already. */
export function bootGuest(
  disks: readonly { readonly target: string; readonly path: string; readonly chain: readonly string[] }[],
  files: HostFiles,
  { now, bootMs }: { readonly now: number; readonly bootMs: number },
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
    agent: seed ? 'running' : 'absent',
    hasNetwork: true,
    honoursPowerButton: true,
  };
}
