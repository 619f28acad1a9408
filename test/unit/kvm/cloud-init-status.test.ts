import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCloudInitStatus } from '../../../lib/kvm/cloud-init-status.ts';
import { oracleIsInstalled } from '../seed/oracle.ts';

const SECRET = 'hunter2';
const DONE = { start: 1, finished: 2, errors: [] };
const STAGES = { 'init-local': DONE, init: DONE, 'modules-config': DONE, 'modules-final': DONE };
const NOT_BEGUN = { start: null, finished: null, errors: [] };
const RUNNING = { start: 3, finished: null, errors: [] };

const SEEDED = { ...STAGES, stage: null, datasource: 'DataSourceNoCloud [seed=/dev/vdb][dsmode=net]' };

const noCloud = (seed: string) => `DataSourceNoCloud [seed=${seed}][dsmode=net]`;

const read = (v1: object, hasResult: boolean) => readCloudInitStatus(JSON.stringify({ v1 }), hasResult);

describe('cloud-init’s status', () => {
  it('names the stage that runs', () => {
    const v1 = { ...STAGES, 'modules-final': RUNNING, stage: 'modules-final', datasource: SECRET };

    expect(read(v1, false)).toEqual({
      cloudInit: 'running',
      detail: 'in stage modules-final',
      isSeedUsed: false,
    });
    expect(read({ ...v1, stage: null }, false).detail).toBe('in stage modules-final');
    expect(read({ ...v1, stage: SECRET }, false).detail).toBe('in stage modules-final');
    expect(read({ ...STAGES, stage: null }, false)).toEqual({
      cloudInit: 'running',
      detail: 'between two stages',
      isSeedUsed: false,
    });
  });

  it('is done when all stages have run without an error', () => {
    expect(read({ ...SEEDED, 'modules-init': NOT_BEGUN }, true)).toEqual({
      cloudInit: 'done',
      detail: null,
      isSeedUsed: true,
    });
  });

  it('counts errors by stage and says none of them', () => {
    const failed = { ...DONE, errors: [`('runcmd', "${SECRET}")`, SECRET] };
    const v1 = { ...SEEDED, 'modules-config': failed, 'modules-final': { ...failed, errors: [SECRET] } };

    expect(read(v1, true)).toEqual({
      cloudInit: 'error',
      detail: 'errors in modules-config (2), modules-final (1)',
      isSeedUsed: true,
    });
    expect(read({ ...v1, stage: 'modules-final' }, false)).toEqual({
      cloudInit: 'error',
      detail: 'errors in modules-config (2), modules-final (1); in stage modules-final',
      isSeedUsed: false,
    });
  });

  it('is degraded by recoverable errors alone, at the end', () => {
    const warned = { ...DONE, recoverable_errors: { WARNING: [SECRET, SECRET], [SECRET]: [SECRET] } };
    const v1 = { ...SEEDED, 'modules-config': warned };

    expect(read(v1, true)).toEqual({
      cloudInit: 'degraded',
      detail: 'recoverable errors in modules-config (3)',
      isSeedUsed: true,
    });
    expect(read(v1, false).cloudInit).toBe('running');
  });

  it.each([
    ['nothing', ''],
    ['no JSON', `{"v1": ${SECRET}`],
    ['a list', '[]'],
    ['another version', '{"v2": {}}'],
    ['no stage', '{"v1": {}}'],
    ['stages of a wrong kind', '{"v1": {"init": [], "init-local": "a", "modules-final": 7, "stage": {}}}'],
    ['a deep nesting', '['.repeat(30_000)],
    ['a prototype', '{"__proto__": {"v1": {}}, "constructor": 1}'],
  ])('of %s is unknown', (_, text) => {
    expect(readCloudInitStatus(text, true)).toEqual({
      cloudInit: 'unknown',
      detail: 'cloud-init’s status in the guest cannot be understood',
      isSeedUsed: false,
    });
  });

  it.each<[string, object, string]>([
    ['came from nowhere', { datasource: null }, 'done'],
    ['came from another source', { datasource: 'DataSourceNone' }, 'done'],
    ['names a source of a wrong kind', { datasource: ['DataSourceNoCloud'] }, 'done'],
    ['came from the image', { datasource: noCloud('/var/lib/cloud/seed/nocloud') }, 'done'],
    ['came from the network', { datasource: noCloud('http://192.0.2.1/') }, 'done'],
    ['was replaced by another place', { datasource: noCloud('/dev/vdb,http://192.0.2.1/') }, 'done'],
    ['was replaced by a folder', { datasource: noCloud('/dev/vdb,/dev/shm/seed') }, 'done'],
    ['came from nothing', { datasource: noCloud('') }, 'done'],
  ])('is no use of the seed when it %s, and says so', (_, wrong, word) => {
    const seen = read({ ...SEEDED, ...wrong }, true);

    expect([seen.cloudInit, seen.isSeedUsed]).toEqual([word, false]);
    expect(seen.detail).toBe('cloud-init did not use the seed');
  });

  it.each(['/dev/vdb', '/dev/sr0', 'dmi,cmdline,/var/lib/cloud/seed/nocloud,ds_config,/dev/vdb'])(
    'is a use of the seed when the disk had the last word: %s',
    (seed) => {
      for (const datasource of [noCloud(seed), noCloud(seed).replace('NoCloud', 'NoCloudNet')]) {
        expect(read({ ...SEEDED, datasource }, true).isSeedUsed).toBe(true);
      }
    },
  );

  it.each<[string, object, string]>([
    ['has no record of the stage that looks for it', { 'init-local': null }, 'done'],
    ['has not ended the stage that reads it', { init: RUNNING }, 'done'],
    ['says of errors there what is no list', { init: { ...DONE, errors: SECRET } }, 'done'],
    ['failed to look for it', { 'init-local': { ...DONE, errors: [SECRET] } }, 'error'],
    ['failed to read it', { init: { ...DONE, errors: [SECRET] } }, 'error'],
  ])('leaves the use of the seed in doubt when it %s, and says so', (_, wrong, word) => {
    const seen = read({ ...SEEDED, ...wrong }, true);

    expect([seen.cloudInit, seen.isSeedUsed]).toEqual([word, false]);
    expect(seen.detail).toMatch(/(?:^|; )cloud-init may not have used the seed$/);
  });

  it('is the next boot’s when a stage runs although there was a result', () => {
    expect(read({ ...SEEDED, init: RUNNING, stage: 'init' }, true)).toEqual({
      cloudInit: 'running',
      detail: 'in stage init',
      isSeedUsed: false,
    });
  });

  it('comes of anything a guest may write, in words of ours', () => {
    const details =
      /^(?:(?:errors|recoverable errors) in [a-z0-9-]+ \(\d+\)[a-z0-9-, ();]*|cloud-init (?:did not use|may not have used) the seed|in stage [a-z-]+|between two stages|cloud-init’s status in the guest cannot be understood)$/;
    fc.assert(
      fc.property(fc.record({ v1: fc.jsonValue() }), fc.boolean(), (document, isOver) => {
        const { detail } = readCloudInitStatus(JSON.stringify(document), isOver);
        if (detail !== null) expect(detail).toMatch(details);
      }),
    );
  });
});

const ASK_CLOUD_INIT = `
import json, os, sys, tempfile
from cloudinit.cmd import status
class Paths: pass
for line in sys.stdin:
    request = json.loads(line)
    paths = Paths()
    paths.run_dir = tempfile.mkdtemp()
    open(paths.run_dir + "/status.json", "w").write(json.dumps({"v1": request["v1"]}))
    if request["isOver"]:
        open(paths.run_dir + "/result.json", "w").close()
    status.get_bootstatus = lambda *_: (status.UXAppBootStatusCode.ENABLED_BY_GENERATOR, "")
    print(status.get_status_details(paths).status.value)
`;

describe.skipIf(!oracleIsInstalled)('cloud-init itself', () => {
  it('says the same of every state that it comes through', () => {
    const stage = fc.record({
      start: fc.constantFrom(null, 1.5),
      finished: fc.constantFrom(null, 2.5),
      errors: fc.constantFrom<string[]>([], [], ['a']),
    });
    const cases = fc
      .sample(
        fc.record({
          v1: fc.record({
            'init-local': fc.constant(DONE),
            init: stage,
            'modules-config': stage,
            'modules-final': stage,
            stage: fc.constantFrom(null, 'init', 'modules-final'),
          }),
          isOver: fc.boolean(),
        }),
        300,
      )
      .filter(({ v1, isOver }) => !isOver || (v1.stage === null && isEnded(v1)));

    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', ASK_CLOUD_INIT], {
      input: cases.map((each) => JSON.stringify(each)).join('\n'),
      encoding: 'utf8',
    });
    const theirs = stdout.trim().split('\n');

    expect(theirs.length, stderr).toBe(cases.length);
    expect(cases.map(({ v1, isOver }) => read(v1, isOver).cloudInit)).toEqual(theirs);
    expect(new Set(theirs)).toEqual(new Set(['running', 'done', 'error']));
  });
});

/** result.json is written when no stage runs any more. */
function isEnded(v1: Record<string, unknown>): boolean {
  return Object.values(v1).every((stage) => {
    const { start, finished } = (stage ?? {}) as { start?: unknown; finished?: unknown };
    return start == null || finished != null;
  });
}
