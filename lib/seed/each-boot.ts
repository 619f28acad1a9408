/**
 * Whether a guest can do without its user-data once cloud-init is done. Most of it is done once for an instance; what
 * cloud-init takes from the seed anew at every boot would be lost with it, and what only the guest can read may be such.
 */
import { isAlias, isMap, isScalar, isSeq, type ParsedNode, type YAMLMap } from 'yaml';
import { archiveLeaves } from './archive-leaves.ts';
import { readCloudConfig } from './cloud-config-merge.ts';
import { type MimeLeaf, mimeLeaves } from './mime-leaves.ts';
import type { YamlDocument } from './pyyaml-document.ts';
import { MERGE_TAG } from './pyyaml-scalars.ts';
import { type AnchoredNode, scalarText, tagOf } from './pyyaml-tree.ts';
import { ReadingBudget, TOO_MANY_PARTS } from './reading-budget.ts';
import { inDocument, refusalAt, UserDataError } from './user-data-error.ts';
import { classifyUserData, hasKnownHeader, type UserDataKind } from './user-data-kind.ts';
import { decodeText } from './user-data-text.ts';

/**
 * Keys of a cloud-config that cloud-init reads at every boot: those of its modules of frequency `always` (22.4 and
 * newer), those it reads itself before any module runs, and its lists of modules, without which the image's own lists
 * would run what was left out before.
 */
export const EACH_BOOT_KEYS: ReadonlySet<string> = new Set([
  ...[
    'bootcmd',
    'chef',
    'disable_ec2_metadata',
    'final_message',
    'growpart',
    'migrate',
    'resize_rootfs',
    'zypper',
  ],
  ...['fqdn', 'hostname', 'manage_etc_hosts', 'prefer_fqdn_over_hostname', 'preserve_hostname'],
  'create_hostname_file',
  ...[
    'allow_userdata',
    'datasource',
    'datasource_list',
    'datasource_pkg_list',
    'def_log_file',
    'di_report',
    'log_cfgs',
    'logcfg',
  ],
  ...[
    'disable_network_activation',
    'manual_cache_clean',
    'network',
    'output',
    'reporting',
    'syslog_fix_perms',
  ],
  ...['system_info', 'unverified_modules', 'updates', 'vendor_data', 'vendor_data2', 'warnings'],
  ...['cloud_init_modules', 'cloud_config_modules', 'cloud_final_modules'],
]);

const LOST =
  'cloud-init takes it from the seed at every boot, and seed.scrub would take it away after the first';
const KEPT = 'the guest keeps it on its disk and runs it at every boot, so seed.scrub would not take it away';
const UNDECIDED =
  'whether it runs at every boot is known only in the guest, and then seed.scrub would take it away';

/**
 * @param userData as the caller sent it; the agent that is added to it is needed once
 * @throws UserDataError that names what would be lost, or what cannot be told
 */
export function checkNothingRunsAtEachBoot(userData: Uint8Array): void {
  const user = classifyUserData(decodeText(userData));
  inDocument('user-data', user.skippedLines, () => checkKind(user.kind, user.text, new ReadingBudget()));
}

function checkKind(kind: UserDataKind, text: string, budget: ReadingBudget): void {
  switch (kind) {
    case 'empty':
    case 'script':
      return;
    case 'cloud-config':
      checkKeys(text, budget);
      return;
    case 'boothook':
      throw refusalAt(text, 0, `a boothook: ${LOST}`);
    case 'mime':
      checkParts(mimeLeaves(text, budget), (part) => checkPart(part, budget));
      return;
    case 'archive':
      checkParts(archiveLeaves(text, budget), (entry) => checkEntry(entry, budget));
      return;
    case 'include':
      throw refusalAt(text, 0, `an include: ${UNDECIDED}`);
    case 'jinja':
      throw refusalAt(text, 0, `a template: ${UNDECIDED}`);
    case 'jsonp':
      throw refusalAt(text, 0, `a JSON patch: ${UNDECIDED}`);
    case 'part-handler':
      throw refusalAt(text, 0, `a part-handler: ${UNDECIDED}`);
  }
}

/** Part types with the kind of user-data that they are; `null` for those that cloud-init looks into itself. */
const KIND_BY_TYPE: ReadonlyMap<string, UserDataKind | 'per-boot' | 'once' | null> = new Map([
  ['text/plain', null],
  ['text/x-not-multipart', null],
  // It says so of parts that are something else too often to be believed.
  ['text/x-shellscript', null],
  ['text/cloud-config', 'cloud-config'],
  ['text/cloud-config-archive', 'archive'],
  ['text/cloud-config-jsonp', 'jsonp'],
  ['text/cloud-boothook', 'boothook'],
  ['text/jinja2', 'jinja'],
  ['text/part-handler', 'part-handler'],
  ['text/x-include-url', 'include'],
  ['text/x-include-once-url', 'include'],
  ['text/x-shellscript-per-boot', 'per-boot'],
  ['text/x-shellscript-per-instance', 'once'],
  ['text/x-shellscript-per-once', 'once'],
]);

/** A part's own lines are not those of the document, so its refusal says which part it is instead. */
function checkParts(leaves: readonly MimeLeaf[], check: (leaf: MimeLeaf) => void): void {
  // Aliases let an archive name one long content thousands of times.
  const seen = new Map<string, Set<string>>();
  for (const [index, leaf] of leaves.entries()) {
    const types = seen.get(leaf.content) ?? new Set();
    if (types.has(leaf.contentType)) continue;
    seen.set(leaf.content, types.add(leaf.contentType));
    try {
      check(leaf);
    } catch (error) {
      if (!(error instanceof UserDataError)) throw error;
      throw new UserDataError(`part ${index + 1}: ${error.detail}`);
    }
  }
}

function checkPart(part: MimeLeaf, budget: ReadingBudget): void {
  const { kind, text } = recognise(part);
  if (kind === undefined) {
    throw new UserDataError(`a part of a type that is not known here: ${UNDECIDED}`);
  }
  if (kind === 'per-boot') throw new UserDataError(`a per-boot script: ${KEPT}`);
  if (kind !== 'once') checkKind(kind, text, budget);
}

function checkEntry(entry: MimeLeaf, budget: ReadingBudget): void {
  if (!budget.spend('parts')) throw new UserDataError(TOO_MANY_PARTS);
  if (recognise(entry).kind === 'archive') {
    throw new UserDataError('an archive inside an archive: cloud-init ignores it');
  }
  checkPart(entry, budget);
}

/** A part by its type or, where cloud-init looks itself, by its header. Of a type that is not known there is no kind. */
function recognise({ contentType, content }: MimeLeaf): {
  readonly kind: UserDataKind | 'per-boot' | 'once' | undefined;
  readonly text: string;
} {
  const kind = KIND_BY_TYPE.get(contentType);
  if (kind !== null) return { kind, text: content };
  // Without a header that it knows cloud-init leaves a plain part alone.
  return hasKnownHeader(content) ? classifyUserData(content) : { kind: 'once', text: content };
}

function checkKeys(text: string, budget: ReadingBudget): void {
  const { document, root } = readCloudConfig(text, budget);
  if (root !== null) checkMapping(document, root);
}

/** Its own keys and those that merge keys bring. */
function checkMapping(document: YamlDocument, map: YAMLMap.Parsed): void {
  for (const { key, value } of map.items) {
    const name = target(document, key);
    if (!isScalar(name)) continue;
    if (tagOf(name) === MERGE_TAG && value !== null) {
      const merged = target(document, value);
      const sources = isSeq(merged) ? merged.items.map((item) => target(document, item)) : [merged];
      for (const source of sources) {
        if (isMap(source)) checkMapping(document, source);
      }
    } else if (EACH_BOOT_KEYS.has(scalarText(name))) {
      throw refusalAt(document.text, key.range[0], `${scalarText(name)}: ${LOST}`);
    }
  }
}

function target(document: YamlDocument, node: ParsedNode): AnchoredNode | undefined {
  return isAlias(node) ? document.targets.get(node) : node;
}
