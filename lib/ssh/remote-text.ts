/** Text from the other side for an error message: one printable line of bounded length, whatever was sent. */
const MAX_LENGTH = 500;

export function remoteText(text: string): string {
  const line = text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach a log
    .replace(/[\u0000-\u001f\u007f-\u009f\s]+/g, ' ')
    .trim();
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line;
}
