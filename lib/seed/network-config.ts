/**
 * The guest's network configuration, in cloud-init's formats version 1 and 2: the basic shape is checked, the VM's
 * own MAC is filled in, and it is written so that PyYAML reads the same values.
 */
import { type PlainValue, renderYaml } from './yaml-flow.ts';

export class NetworkConfigError extends Error {
  override readonly name = 'NetworkConfigError';
}

/** In any string of the configuration, stands for the MAC of the VM that is being made. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the caller writes these very characters
const MAC_PLACEHOLDER = '${mac}';

const V1_TYPES: readonly string[] = [
  'physical',
  'bond',
  'bridge',
  'vlan',
  'nameserver',
  'route',
  'loopback',
  'infiniband',
];
const V2_GROUPS: readonly string[] = [
  'ethernets',
  'bonds',
  'bridges',
  'vlans',
  'wifis',
  'modems',
  'tunnels',
  'vrfs',
  'dummy-devices',
];
const MAX_DEPTH = 20;
const MAX_KEY_CHARACTERS = 1000;

/** @throws NetworkConfigError that says where the shape is wrong */
export function validateNetworkConfig(config: unknown): void {
  checkPlain(config, '', 0);
  const { path, body } = unwrap(config);
  if (body['version'] === 1) {
    validateVersion1(body['config'], `${path}/config`);
  } else if (body['version'] === 2) {
    validateVersion2(body, path);
  } else {
    throw fault(`${path}/version`, 'must be the number 1 or 2');
  }
}

/**
 * The file's text. A `network:` around the whole is taken off: NoCloud of older cloud-inits does not look inside.
 * @param mac lower case, colon separated
 * @throws NetworkConfigError as validateNetworkConfig does
 */
export function renderNetworkConfig(config: unknown, mac: string): string {
  validateNetworkConfig(config);
  return `${renderYaml(fillMac(unwrap(config).body, mac))}\n`;
}

type Body = { readonly [key: string]: PlainValue };

function unwrap(config: unknown): { path: string; body: Body } {
  if (!isBody(config)) {
    throw fault('', 'must be an object');
  }
  const inner = config['network'];
  if (inner === undefined) {
    return { path: '', body: config };
  }
  if (!isBody(inner)) {
    throw fault('/network', 'must be an object');
  }
  return { path: '/network', body: inner };
}

function validateVersion1(config: PlainValue | undefined, path: string): void {
  if (config === 'disabled') {
    return;
  }
  if (!Array.isArray(config)) {
    throw fault(path, 'must be a list in version 1');
  }
  config.forEach((entry: unknown, index) => {
    if (!isBody(entry)) {
      throw fault(`${path}/${index}`, 'must be an object');
    }
    const { type, name } = entry;
    if (typeof type !== 'string' || !V1_TYPES.includes(type)) {
      throw fault(`${path}/${index}/type`, `must be one of ${V1_TYPES.join(', ')}`);
    }
    if (type !== 'nameserver' && type !== 'route' && (typeof name !== 'string' || name === '')) {
      throw fault(`${path}/${index}/name`, 'must be the name of an interface');
    }
    const { subnets = [] } = entry;
    if (
      !Array.isArray(subnets) ||
      !subnets.every((subnet) => isBody(subnet) && typeof subnet['type'] === 'string')
    ) {
      throw fault(`${path}/${index}/subnets`, 'must be a list of objects with a type');
    }
  });
}

function validateVersion2(body: Body, path: string): void {
  for (const group of V2_GROUPS) {
    const devices = body[group];
    if (devices === undefined) {
      continue;
    }
    if (!isBody(devices)) {
      throw fault(`${path}/${group}`, 'must be an object of devices by name');
    }
    for (const [name, device] of Object.entries(devices)) {
      if (!isBody(device)) {
        throw fault(`${path}/${group}/${name}`, 'must be an object');
      }
    }
  }
}

/** Only what JSON can hold, of a depth and key length that PyYAML reads. */
function checkPlain(value: unknown, path: string, depth: number): void {
  if (depth > MAX_DEPTH) {
    throw fault(path, `is nested deeper than ${MAX_DEPTH} levels`);
  }
  if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      if (key.length > MAX_KEY_CHARACTERS) {
        throw fault(path, `has a key longer than ${MAX_KEY_CHARACTERS} characters`);
      }
      checkPlain(item, `${path}/${key}`, depth + 1);
    }
  } else if (
    typeof value === 'number' ? !Number.isFinite(value) : value === undefined || typeof value === 'bigint'
  ) {
    throw fault(path, 'is not a value of JSON');
  } else if (typeof value === 'string' && !value.isWellFormed()) {
    throw fault(path, 'contains half of a surrogate pair');
  }
}

function fillMac(value: PlainValue, mac: string): PlainValue {
  if (typeof value === 'string') {
    return value.replaceAll(MAC_PLACEHOLDER, mac);
  }
  if (Array.isArray(value)) {
    return value.map((item: PlainValue) => fillMac(item, mac));
  }
  if (isBody(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillMac(item, mac)]));
  }
  return value;
}

function isBody(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fault(path: string, detail: string): NetworkConfigError {
  return new NetworkConfigError(path === '' ? `the network configuration ${detail}` : `${path} ${detail}`);
}
