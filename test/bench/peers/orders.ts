/** What warm peers are told and what they answer: the same JSON in all three languages. */
import type { Endpoint } from '../ssh-access.ts';
import type { Timed } from './warm-peer.ts';

/** At a peer's start. */
export interface PeerSettings {
  readonly user: string;
  readonly privateKeyFile: string;
  readonly knownHostsFile: string;
  readonly sshCommand: string;
  readonly socketPath: string;
  /** The metadata element that is read of every VM. */
  readonly metadataUri: string;
  readonly fleet: string;
  readonly host: string;
  readonly pool: string;
  readonly bridge: string;
}

/**
 * Connect, open, look a VM up, read its state, metadata and addresses, close: all of it is timed. `together` reads them
 * with the three calls under way at once, as this project always does.
 */
export interface SessionOrder extends Endpoint {
  readonly op: 'session' | 'session-together';
  readonly vm: string;
}

export interface SessionAnswer extends Timed {
  readonly state: number;
  readonly metadata: string;
  readonly addresses: readonly string[];
}

/**
 * State and metadata of every domain, one call after the other, with many calls under way, or as the provider reads them
 * for its list. Opening and closing the session are not timed.
 */
export interface ListOrder extends Endpoint {
  readonly op: 'list' | 'list-together' | 'list-provider';
  readonly vm: string;
}

export interface ListAnswer extends Timed {
  /** VMs of the fleet whose state and metadata were read. */
  readonly count: number;
}

/** A disk image, from this machine's own files. */
export interface BenchImage {
  readonly url: string;
  /** `sha256:…`. */
  readonly checksum: string;
}

/** Connect, open, create the VM or delete it as the functions do, close: all of it is timed. */
export interface VmOrder extends Endpoint {
  readonly op: 'create' | 'delete';
  readonly vm: string;
  /** Brought to the host by the first create. */
  readonly image: BenchImage;
}

/** Connect, open, look the volume up, send the file into it, close: all of it is timed. */
export interface UploadOrder extends Endpoint {
  readonly op: 'upload';
  readonly volume: string;
  readonly file: string;
}

/** Answered at once: whoever answers has started and loaded what it needs. */
export interface ReadyOrder {
  readonly op: 'ready';
}
