/**
 * Text on the wire. XDR strings are bytes; libvirt's are C strings that are UTF-8 by convention only. They become
 * JavaScript strings here, once, so that no caller ever holds name bytes in one place and a name string in another.
 */
import { BaseType, fixedArray, int32, option, string, XdrError, type XdrType } from '@stellar/js-xdr';

/** REMOTE_STRING_MAX. */
const STRING_MAX_BYTES = 4_194_304;

const encoder = new TextEncoder();
/** Lenient: a host's file name or message in another encoding must not make the whole reply unreadable. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function decodeToNul(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}

class TextType extends BaseType<string> {
  readonly kind = 'text';
  readonly #bytes: XdrType<Uint8Array>;

  constructor(maxBytes: number) {
    super();
    this.#bytes = string(maxBytes);
  }

  /** To the first NUL: what comes behind one is there for no reader of C strings. */
  _read(reader: Parameters<XdrType<string>['_read']>[0], path: string): string {
    return decodeToNul(this.#bytes._read(reader, path));
  }

  /** A NUL would end the string on the other side, and a lone surrogate would change it: `a\0b` must never mean `a`. */
  _write(value: string, writer: Parameters<XdrType<string>['_write']>[1], path: string): void {
    if (typeof value !== 'string' || value.includes('\0') || !value.isWellFormed()) {
      throw new XdrError(`${path}: expected well-formed text without NUL`);
    }
    this.#bytes._write(encoder.encode(value), writer, path);
  }
}

/** remote_nonnull_string. Bytes that are not UTF-8 decode to U+FFFD. @throws XdrError on encoding NUL or a lone surrogate. */
export const text = (maxBytes: number = STRING_MAX_BYTES): XdrType<string> => new TextType(maxBytes);

/** remote_string: a string or NULL. */
export const optionalText = (): XdrType<string | null> => option(text());

/** `char name[n]`: rpcgen sends each char as an int of its own. The text ends at the first NUL. */
class CharArrayType extends BaseType<string> {
  readonly kind = 'charArray';
  readonly #length: number;
  readonly #chars: XdrType<number[]>;

  constructor(length: number) {
    super();
    this.#length = length;
    this.#chars = fixedArray(int32(), length);
  }

  _read(reader: Parameters<XdrType<string>['_read']>[0], path: string): string {
    return decodeToNul(Uint8Array.from(this.#chars._read(reader, path)));
  }

  _write(value: string, writer: Parameters<XdrType<string>['_write']>[1], path: string): void {
    const bytes = encoder.encode(value);
    if (bytes.length >= this.#length || bytes.includes(0)) {
      throw new XdrError(`${path}: expected text of less than ${this.#length} bytes without NUL`);
    }
    // `char` is signed on the wire: 0xc3 travels as -61.
    const chars = [...new Int8Array(bytes), ...new Array<number>(this.#length - bytes.length).fill(0)];
    this.#chars._write(chars, writer, path);
  }
}

/** A fixed `char` array of the given length in bytes, the closing NUL included. */
export const charArray = (length: number): XdrType<string> => new CharArrayType(length);
