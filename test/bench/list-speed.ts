/** How long it takes to list many VMs with state and metadata, in a session that is open. */
import { BENCH_HOST, type BenchHost } from './bench-host.ts';
import { defineVms } from './bench-vms.ts';
import { judgeRatio, type Measurement, type Series, type Verdict } from './judgement.ts';
import type { NetworkWays, Way } from './network-ways.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import {
  GO,
  GO_TOGETHER,
  OURS,
  type PeerPrograms,
  PYTHON,
  peerSettings,
  startGoPeer,
  startOwnClient,
  startPythonPeer,
} from './peers/contestants.ts';
import type { ListAnswer, ListOrder } from './peers/orders.ts';
import type { WarmPeer } from './peers/warm-peer.ts';
import { type Contestant, type RunControl, runRounds, seriesOf } from './rounds.ts';

const VMS = { usual: 1000, quick: 50 };
const ROUNDS = { loopback: 11, delayed: 5 };
/** Two calls a VM, one after the other, at 30 ms: a minute for each sample. */
const SEQUENTIAL_ROUNDS = 1;
/** The client without the provider: the peers' own two calls a VM instead of the whole definition, and no parsing. */
const OWN_CLIENT = `${OURS}, the client alone`;

export interface ListParts {
  readonly host: BenchHost;
  readonly ways: NetworkWays;
  readonly programs: PeerPrograms;
  /** A VM that is there already; it is listed too. */
  readonly vmName: string;
}

export async function measureLists(
  { host, ways, programs, vmName }: ListParts,
  options: BenchOptions,
  control: RunControl,
): Promise<Measurement> {
  const count = options.quick ? VMS.quick : VMS.usual;
  control.log(`defining VMs on ${BENCH_HOST.name} until there are ${count}`);
  await using session = await host.connect();
  await defineVms(session.connection, count - 1);

  const settings = peerSettings(host);
  await using own = await startOwnClient(programs, settings);
  await using go = await startGoPeer(programs, settings);
  await using python = await startPythonPeer(settings);

  const compare = async (way: Way, rounds: number, sequential: Pick<Contestant, 'atMostRounds'>) => {
    const ask = (name: string, peer: WarmPeer, op: ListOrder['op']): Contestant => ({
      name,
      sample: async (signal) => {
        const order: ListOrder = { op, ...way.endpoint, vm: vmName };
        const answer = await peer.ask<ListAnswer>(order, signal);
        if (answer.count !== count) throw new Error(`listed ${answer.count} VMs of ${count}`);
        return answer.ms;
      },
    });
    const contestants = [
      ask(OURS, own, 'list-provider'),
      ask(OWN_CLIENT, own, 'list-together'),
      { ...ask(GO, go, 'list'), ...sequential },
      ask(GO_TOGETHER, go, 'list-together'),
      { ...ask(PYTHON, python, 'list'), ...sequential },
    ];
    const measure = `list ${count.toLocaleString('en')} VMs, ${way.name}`;
    return await runRounds({ measure, unit: 'ms', rounds, contestants }, control);
  };

  const near = await compare(ways.loopback, roundsFor(options, ROUNDS.loopback), {});
  const far = await compare(ways.delayed, roundsFor(options, ROUNDS.delayed), {
    atMostRounds: SEQUENTIAL_ROUNDS,
  });
  const against = (series: readonly Series[], value: number): Verdict =>
    judgeRatio(seriesOf(series, OURS), seriesOf(series, GO), { bound: 'at most', value });
  return { series: [...near, ...far], verdicts: [against(near, 0.4), against(far, 0.01)] };
}
