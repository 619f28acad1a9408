/** How long it takes to make a VM's seed image: in this process, and by starting xorriso for the same files. */
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildIso9660, type IsoFile } from '../../lib/seed/iso9660.ts';
import { prepareUserData } from '../../lib/seed/prepare-user-data.ts';
import { SEED_LABEL } from '../../lib/seed/seed.ts';
import { run } from '../lab/commands.ts';
import { judgeRatio, type Measurement } from './judgement.ts';
import { type BenchOptions, roundsFor } from './options.ts';
import { OURS } from './peers/contestants.ts';
import { type RunControl, runRounds, seriesOf } from './rounds.ts';

const ROUNDS = 51;
const XORRISO = 'xorriso';
const TIME = new Date('2026-01-01T00:00:00Z');

export async function measureSeedImages(options: BenchOptions, control: RunControl): Promise<Measurement> {
  const files = seedFiles();
  const folder = await mkdtemp(join(tmpdir(), 'kvmfn-seed-'));
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
  for (const { name, content } of files) await writeFile(join(folder, name), content);
  const image = join(folder, 'seed.iso');
  const paths = files.map(({ name }) => join(folder, name));

  const series = await runRounds(
    {
      measure: 'seed image',
      unit: 'ms',
      rounds: roundsFor(options, ROUNDS),
      contestants: [
        {
          name: OURS,
          sample: async () => {
            const startedAt = performance.now();
            const bytes = buildIso9660(files, { volumeId: SEED_LABEL, time: TIME });
            const ms = performance.now() - startedAt;
            if (bytes.length === 0) throw new Error('an empty image');
            return ms;
          },
        },
        {
          name: XORRISO,
          sample: async (signal) => {
            await rm(image, { force: true });
            const args = ['-as', 'mkisofs', '-quiet', '-R', '-J', '-V', SEED_LABEL, '-o', image, ...paths];
            const startedAt = performance.now();
            await run(XORRISO, args, { signal });
            const ms = performance.now() - startedAt;
            if ((await stat(image)).size === 0) throw new Error('an empty image');
            return ms;
          },
        },
      ],
    },
    control,
  );
  const target = { bound: 'at least', value: 20 } as const;
  const verdict = judgeRatio(seriesOf(series, OURS), seriesOf(series, XORRISO), target, { speedup: true });
  return { series, verdicts: [{ ...verdict, measure: 'seed image, times as fast' }] };
}

/** A cloud-config of the usual kind with the guest agent added, and what stands beside it. */
function seedFiles(): readonly IsoFile[] {
  const userData = Buffer.from(
    `#cloud-config
hostname: proxy-1
users:
  - name: operator
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2eXkq0Vv4f1m8w1Zt6c4d9o0v7sV1y2rQe5u3n6w8x operator
packages: [nginx, curl, jq]
write_files:
  - path: /etc/nginx/conf.d/proxy.conf
    content: |
${'      # a line of configuration as long as they usually are in such files\n'.repeat(60)}
runcmd:
  - [systemctl, enable, --now, nginx]
`,
  );
  const prepared = prepareUserData(userData, '');
  return [
    { name: 'user-data', content: prepared.userData },
    { name: 'meta-data', content: Buffer.from('instance-id: proxy-1-0b1c\nlocal-hostname: proxy-1\n') },
    { name: 'vendor-data', content: prepared.vendorData },
  ];
}
