/**
 * How PyYAML's safe loader, which cloud-init reads with, types a scalar: YAML 1.1's implicit types by pattern, and
 * which values of a type it cannot construct. An impossible date anywhere makes the guest drop the whole document.
 */

const TAG_PREFIX = 'tag:yaml.org,2002:';

export const NULL_TAG = `${TAG_PREFIX}null`;
export const STRING_TAG = `${TAG_PREFIX}str`;
export const SEQUENCE_TAG = `${TAG_PREFIX}seq`;
export const MAPPING_TAG = `${TAG_PREFIX}map`;
export const MERGE_TAG = `${TAG_PREFIX}merge`;
const VALUE_TAG = `${TAG_PREFIX}value`;
const INT_TAG = `${TAG_PREFIX}int`;
const FLOAT_TAG = `${TAG_PREFIX}float`;
const BOOL_TAG = `${TAG_PREFIX}bool`;
const TIMESTAMP_TAG = `${TAG_PREFIX}timestamp`;
/** cloud-init's own addition: a string. */
const UNICODE_TAG = `${TAG_PREFIX}python/unicode`;
const BINARY_TAG = `${TAG_PREFIX}binary`;

const BOOL = /^(?:yes|no|true|false|on|off)$/i;
const NULL = /^(?:~|null|Null|NULL|)$/;
const INT =
  /^(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$/;
/** What the constructor makes of it, without underscores and sign. */
const INT_DIGITS = /^(?:0b[01]+|0x[0-9a-fA-F]+|0[0-7]*|[1-9]\d*(?::\d+)*)$/;
const FLOAT =
  /^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
/** What the resolver takes for a time; narrower in its short form than what the constructor then reads. */
const DATE = /^\d{4}-\d\d-\d\d$/;
const TIMESTAMP =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.\d*)?(?:[ \t]*(?:Z|([-+])(\d\d?)(?::(\d\d))?))?)?$/;

/**
 * CPython converts no longer number from or to decimal digits (a guard against slow conversions since 3.11). cloud-init reads one
 * in another base all the same, and fails when it writes down what it has read.
 */
const LONGEST_DECIMAL = 4300;
/** The same in binary, the base with the most digits. */
const LONGEST_IN_ANY_BASE = Math.ceil(LONGEST_DECIMAL * Math.log2(10));

/** The tag PyYAML gives to a plain scalar without one. */
export function implicitTag(text: string): string {
  if (NULL.test(text)) return NULL_TAG;
  if (isBool(text)) return BOOL_TAG;
  if (INT.test(text)) return INT_TAG;
  if (FLOAT.test(text)) return FLOAT_TAG;
  if (DATE.test(text) || (TIMESTAMP.test(text) && text.includes(':'))) return TIMESTAMP_TAG;
  if (text === '<<') return MERGE_TAG;
  if (text === '=') return VALUE_TAG;
  return STRING_TAG;
}

/** Lower, capital or upper case only: `yEs` is a string. */
function isBool(text: string): boolean {
  if (!BOOL.test(text)) return false;
  const cased = [
    text.toLowerCase(),
    text.toUpperCase(),
    text.slice(0, 1).toUpperCase() + text.slice(1).toLowerCase(),
  ];
  return cased.includes(text);
}

/** Why a scalar of this tag cannot be read, or null when it can. `text` is the scalar's content. */
export function scalarFault(tag: string, text: string): string | null {
  switch (tag) {
    case NULL_TAG:
    case STRING_TAG:
    case UNICODE_TAG:
      return null;
    case BOOL_TAG:
      return BOOL.test(text)
        ? null
        : 'the tag !!bool stands before something that is not yes, no, true, false, on or off';
    case INT_TAG:
      return intFault(text);
    case FLOAT_TAG:
      return isFloat(text) ? null : 'not a number that YAML 1.1 can read';
    case TIMESTAMP_TAG:
      return timestampFault(text);
    case BINARY_TAG:
      return isBinary(text) ? null : 'the tag !!binary stands before something that is not base64';
    case VALUE_TAG:
      return 'a lone = has a special meaning in YAML 1.1 that cloud-init cannot read; put it in quotes';
    case MERGE_TAG:
      return 'a lone << has a special meaning in YAML 1.1 that cloud-init cannot read here; put it in quotes';
    default:
      return 'a tag that cloud-init cannot read';
  }
}

/**
 * What Python compares when two keys of a mapping meet: numbers by value whatever their spelling, and True equals 1.
 */
export function keyIdentity(tag: string, text: string): string {
  if (tag === BOOL_TAG) {
    return `number ${/^(?:yes|true|on)$/i.test(text) ? 1 : 0}`;
  }
  if (tag === INT_TAG) {
    return `number ${intValue(text) ?? text}`;
  }
  if (tag === FLOAT_TAG && /^[-+]?[\d_]+\.[\d_]*$/.test(text)) {
    const value = Number(text.replaceAll('_', ''));
    return `number ${Number.isInteger(value) ? BigInt(value) : value}`;
  }
  if (tag === UNICODE_TAG) {
    return `${STRING_TAG} ${text}`;
  }
  return tag === NULL_TAG ? 'null' : `${tag} ${text}`;
}

function intFault(text: string): string | null {
  const value = intValue(text);
  if (value === 'too long') {
    return `a number of more than ${LONGEST_DECIMAL} digits, which cloud-init cannot write down; put it in quotes`;
  }
  return value === null ? 'not a number that YAML 1.1 can read' : null;
}

function intValue(text: string): bigint | 'too long' | null {
  const digits = text.replaceAll('_', '').replace(/^[-+]/, '');
  if (!INT_DIGITS.test(digits)) return null;
  const places = digits.split(':');
  // Before it is read: reading takes more than proportional time, in base 60 and decimal.
  const isLong = digits.replace(/^0[bx]?0*/, '').length > LONGEST_IN_ANY_BASE;
  if (isLong || (/^[1-9]/.test(digits) && places.some((place) => place.length > LONGEST_DECIMAL)))
    return 'too long';
  const isOctal = /^0[0-7]/.test(digits);
  const value = isOctal
    ? BigInt(`0o${digits}`)
    : places.reduce((sum, place) => sum * 60n + BigInt(place), 0n);
  if (value.toString().length > LONGEST_DECIMAL) return 'too long';
  return text.startsWith('-') ? -value : value;
}

function isFloat(text: string): boolean {
  const digits = text.replaceAll('_', '');
  return FLOAT.test(text) || /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?$/i.test(digits);
}

function timestampFault(text: string): string | null {
  const match = TIMESTAMP.exec(text);
  if (match === null) {
    return 'the tag !!timestamp stands before something that is not a date';
  }
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const zoneMinutes = Number(match[8] ?? 0) * 60 + Number(match[9] ?? 0);
  const daysInMonth = new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
  const exists =
    year >= 1 &&
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    day <= daysInMonth &&
    hour < 24 &&
    minute < 60 &&
    second < 60;
  if (exists && zoneMinutes < 24 * 60) {
    return null;
  }
  return 'YAML 1.1 takes this for a date, and there is no such date; put it in quotes';
}

/** As Python's decodebytes: other characters are skipped, and the first padding that fits ends it. */
function isBinary(text: string): boolean {
  let inGroup = 0;
  let padding = 0;
  for (const character of text) {
    if (character > '\x7f') {
      return false;
    }
    if (character === '=') {
      padding += 1;
      if (inGroup >= 2 && inGroup + padding >= 4) {
        return true;
      }
    } else if (/[A-Za-z0-9+/]/.test(character)) {
      inGroup = (inGroup + 1) % 4;
      padding = 0;
    }
  }
  return inGroup === 0;
}
