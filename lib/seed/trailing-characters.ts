/**
 * The text without those of the characters that it ends with. A pattern such as `/[ \t]*$/` does the same and starts anew at
 * every character of every run in the text: 64 KiB of blanks inside a line cost seconds, a MiB hours.
 */
export function withoutTrailing(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
