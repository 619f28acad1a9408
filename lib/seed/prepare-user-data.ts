/**
 * From what a caller sent to what stands on the seed: the user's configuration with every value unchanged, plus the
 * guest agent. What cloud-init would reject or ignore is refused here, before a host is touched.
 */
import {
  addAgent,
  agentCloudConfig,
  CLOUD_CONFIG_HEADER,
  type CloudConfig,
  hasKey,
  readCloudConfig,
  withStrictHeader,
} from './cloud-config-merge.ts';
import { AGENT_KEYS, type AgentKey } from './guest-agent.ts';
import { buildMultipart, checkMimeMessage, type MimePart } from './mime-message.ts';
import { checkOtherKind } from './other-kinds.ts';
import { inDocument, UserDataError } from './user-data-error.ts';
import { type ClassifiedUserData, classifyUserData, type UserDataKind } from './user-data-kind.ts';
import { decodeText } from './user-data-text.ts';

export interface PreparedUserData {
  readonly userData: Uint8Array;
  readonly vendorData: Uint8Array;
  /** What the caller's user-data is. */
  readonly kind: UserDataKind;
}

/**
 * Pure, and preparing its own result again changes nothing in a cloud-config.
 *
 * @param userData bytes as decoded from the request; may be empty
 * @param vendorData the operator's cloud-config, or empty. For a key that both have, the user's value counts.
 * @throws UserDataError with line and column; its `document` says whether user-data or vendor-data is at fault
 */
export function prepareUserData(userData: Uint8Array, vendorData: string): PreparedUserData {
  const vendor = readVendorData(vendorData);
  const user = classifyUserData(decodeText(userData));

  // The agent goes where the list already is. Were it always added to the user's document, that would then have the
  // key, and cloud-init would drop the vendor's list.
  const chooseKeys: ChooseKeys = (userHas) =>
    AGENT_KEYS.filter((key) => userHas(key) || vendor === null || !hasKey(vendor, key));
  const prepared = inDocument('user-data', user.skippedLines, () => prepare(user, chooseKeys));
  const vendorKeys = AGENT_KEYS.filter((key) => !prepared.keys.includes(key));
  return {
    userData: Buffer.from(prepared.text, 'utf8'),
    vendorData: Buffer.from(vendor === null ? '' : extendCloudConfig(vendor, vendorKeys), 'utf8'),
    kind: user.kind,
  };
}

interface Prepared {
  readonly text: string;
  /** The lists that bring the agent here; vendor-data brings the others. */
  readonly keys: readonly AgentKey[];
}

type ChooseKeys = (userHas: (key: AgentKey) => boolean) => readonly AgentKey[];

function prepare(user: ClassifiedUserData, chooseKeys: ChooseKeys): Prepared {
  switch (user.kind) {
    case 'empty':
      return prepareCloudConfig(`${CLOUD_CONFIG_HEADER}\n`, chooseKeys);
    case 'cloud-config':
      return prepareCloudConfig(user.text, chooseKeys);
    case 'script':
    case 'boothook':
    case 'part-handler':
      // None of them is configuration, so the vendor's lists stay in force and may carry the agent.
      return wrap(
        { contentType: user.contentType, content: user.text },
        chooseKeys(() => false),
      );
    case 'mime':
      checkMimeMessage(user.text);
      return wrap({ message: user.text }, AGENT_KEYS);
    default:
      // What they come to is known only once the guest has rendered or fetched it, so the agent's lists are appended
      // there to whatever lists there are.
      checkOtherKind(user.kind, user.text);
      return wrap({ contentType: user.contentType, content: user.text }, AGENT_KEYS);
  }
}

function prepareCloudConfig(text: string, chooseKeys: ChooseKeys): Prepared {
  const config = readCloudConfig(text);
  const keys = chooseKeys((key) => hasKey(config, key));
  if (config.root === null && keys.length === 0) {
    // cloud-init warns about a cloud-config without content.
    return { text: `${CLOUD_CONFIG_HEADER}\n{}\n`, keys };
  }
  return { text: extendCloudConfig(config, keys), keys };
}

/** In place where that is possible, else as a message of two parts. */
function extendCloudConfig(config: CloudConfig, keys: readonly AgentKey[]): string {
  const extended = addAgent(config, keys);
  return extended === null
    ? buildMultipart(
        { contentType: 'text/cloud-config', content: config.document.text },
        agentCloudConfig(keys),
      )
    : withStrictHeader(extended);
}

function wrap(part: MimePart, keys: readonly AgentKey[]): Prepared {
  if (keys.length > 0) {
    return { text: buildMultipart(part, agentCloudConfig(keys)), keys };
  }
  return { text: 'message' in part ? part.message : part.content, keys };
}

function readVendorData(text: string): CloudConfig | null {
  return inDocument('vendor-data', 0, () => {
    const vendor = classifyUserData(decodeText(Buffer.from(text, 'utf8')));
    if (vendor.kind === 'empty') {
      return null;
    }
    if (vendor.kind !== 'cloud-config') {
      throw new UserDataError('must be empty or a cloud-config, beginning with the line “#cloud-config”');
    }
    return inDocument('vendor-data', vendor.skippedLines, () => readCloudConfig(vendor.text));
  });
}
