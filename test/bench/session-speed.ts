/** How long one session takes: connect, open, read one VM's state, metadata and addresses, close. */
import { setTimeout as sleep } from 'node:timers/promises';
import { METADATA } from '../../lib/kvm/metadata.ts';
import { DOMAIN_STATE } from '../../lib/libvirt/constants.ts';
import { run } from '../lab/commands.ts';
import type { BenchHost } from './bench-host.ts';
import { judgeRatio, type Measurement, type Series, type Verdict } from './judgement.ts';
import type { NetworkWays, Way } from './network-ways.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import {
  GO,
  GO_TOGETHER,
  libvirtUri,
  OURS,
  type PeerPrograms,
  PYTHON,
  peerSettings,
  startGoPeer,
  startOwnClient,
  startPythonPeer,
  VIRSH,
} from './peers/contestants.ts';
import type { SessionAnswer, SessionOrder } from './peers/orders.ts';
import type { WarmPeer } from './peers/warm-peer.ts';
import { type Contestant, type RunControl, runRounds, seriesOf } from './rounds.ts';

const ROUNDS = { loopback: 21, delayed: 11 };
/** sshd is still ending the last session's processes when it is over for the client. */
const PAUSE_MS = 50;

export interface SessionParts {
  readonly host: BenchHost;
  readonly ways: NetworkWays;
  readonly programs: PeerPrograms;
  readonly vmName: string;
}

export async function measureSessions(
  parts: SessionParts,
  options: BenchOptions,
  control: RunControl,
): Promise<Measurement> {
  const { host, ways, programs } = parts;
  const settings = peerSettings(host);
  await using own = await startOwnClient(programs, settings);
  await using go = await startGoPeer(programs, settings);
  await using python = await startPythonPeer(settings);

  const compare = async (way: Way, rounds: number): Promise<Series[]> => {
    const ask = (name: string, peer: WarmPeer, op: SessionOrder['op']): Contestant => ({
      name,
      sample: async (signal) => {
        await sleep(PAUSE_MS, undefined, { signal });
        const order: SessionOrder = { op, ...way.endpoint, vm: parts.vmName };
        const answer = await peer.ask<SessionAnswer>(order, signal);
        checkAnswer(answer, parts.vmName);
        return answer.ms;
      },
    });
    const contestants = [
      ask(OURS, own, 'session'),
      ask(GO, go, 'session'),
      ask(GO_TOGETHER, go, 'session-together'),
      ask(PYTHON, python, 'session'),
      virsh(parts, way),
    ];
    return await runRounds({ measure: `session, ${way.name}`, unit: 'ms', rounds, contestants }, control);
  };

  const near = await compare(ways.loopback, roundsFor(options, ROUNDS.loopback));
  const far = await compare(ways.delayed, roundsFor(options, ROUNDS.delayed));
  const against = (series: readonly Series[], peer: string, value: number): Verdict =>
    judgeRatio(seriesOf(series, OURS), seriesOf(series, peer), { bound: 'at most', value });
  return {
    series: [...near, ...far],
    verdicts: [against(near, GO, 0.8), against(near, VIRSH, 0.25), against(far, GO, 0.9)],
  };
}

/** A command has to be started anew for every session: that is what it is. */
function virsh({ host, vmName }: SessionParts, way: Way): Contestant {
  const commands = `domstate ${vmName}; metadata ${vmName} ${METADATA.identity.uri} --config; domifaddr ${vmName} --source lease`;
  const args = ['--connect', libvirtUri(host, way.endpoint), '--quiet', commands];
  return {
    name: VIRSH,
    sample: async (signal) => {
      await sleep(PAUSE_MS, undefined, { signal });
      const startedAt = performance.now();
      const output = await run('virsh', args, { signal });
      const ms = performance.now() - startedAt;
      if (!['paused', `name="${vmName}"`].every((part) => output.includes(part))) {
        throw new Error(`unexpected answer: ${output}`);
      }
      return ms;
    },
  };
}

/** A session that read something else would be fast for the wrong reason. No DHCP server of libvirt's knows the VM. */
function checkAnswer({ state, metadata, addresses }: SessionAnswer, vmName: string): void {
  const isRight =
    state === DOMAIN_STATE.paused && metadata.includes(`name="${vmName}"`) && addresses.length === 0;
  if (!isRight) throw new Error(`unexpected answer: ${JSON.stringify({ state, metadata, addresses })}`);
}
