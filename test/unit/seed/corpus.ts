/**
 * Own documents in the manner of every example of cloud-init's documentation, and every shape YAML gives them. In a
 * corpus file a line `#### name` begins a document, which lasts to the next.
 */
import { readFileSync } from 'node:fs';

export interface CorpusDocument {
  readonly name: string;
  readonly text: string;
}

const HEADER = '#cloud-config\n';

/** What the files cannot show: ends without a line break, and line ends of another system. */
const ENDINGS: readonly CorpusDocument[] = [
  { name: 'header only', text: '#cloud-config\n' },
  { name: 'header only, no line break', text: '#cloud-config' },
  { name: 'comments only', text: '#cloud-config\n# nothing yet\n\n' },
  { name: 'no line break at the end', text: '#cloud-config\nhostname: h' },
  { name: 'list without a line break at the end', text: '#cloud-config\nhostname: h\npackages:\n- a' },
  { name: 'list with a comment at the end', text: '#cloud-config\npackages:\n- a # last' },
  { name: 'comment without a line break', text: '#cloud-config\nhostname: h\n# end' },
  {
    name: 'literal that ends with the text',
    text: '#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    one\n    two',
  },
  { name: 'literal with keep that ends with the text', text: '#cloud-config\ntext: |+\n  one' },
  { name: 'literal with an indicator that ends with the text', text: '#cloud-config\ntext: |2+\n   one' },
  { name: 'folded text that ends with the text', text: '#cloud-config\ntext: >\n  one\n  two' },
  {
    name: 'last command is a literal that ends with the text',
    text: '#cloud-config\npackages: [a]\nruncmd:\n- |\n  echo a\n  echo b',
  },
  { name: 'literal that ends with blanks only', text: '#cloud-config\ntext: |\n  one\n   ' },
  { name: 'literal with keep that ends with blanks only', text: '#cloud-config\ntext: |+\n  one\n ' },
  { name: 'empty key at the end', text: '#cloud-config\nhostname: h\nruncmd:' },
  { name: 'empty entry at the end', text: '#cloud-config\nruncmd:\n- a\n-' },
  { name: 'braces without a line break', text: '#cloud-config\n{hostname: h}' },
  { name: 'blanks after the last line', text: '#cloud-config\nhostname: h\n  ' },
  {
    name: 'lines of Windows',
    text: '#cloud-config\r\npackages:\r\n  - a # x\r\n\r\nhostname: h\r\ntext: |\r\n  one\r\n  two\r\n',
  },
  { name: 'lines of Windows, no line break at the end', text: '#cloud-config\r\npackages:\r\n- a' },
  { name: 'header with white space before it', text: '\n \n\t#cloud-config\nhostname: h\n' },
  { name: 'header in capitals', text: '#CLOUD-CONFIG\nhostname: h\n' },
  { name: 'header with a comment behind', text: '#cloud-config # my vm: the first\nhostname: h\n' },
  { name: 'header that runs into a word', text: '#cloud-configuration\nhostname: h\n' },
  { name: 'byte-order mark', text: '\uFEFF#cloud-config\nhostname: h\n' },
];

export function readCorpus(): CorpusDocument[] {
  return ['modules.txt', 'yaml-shapes.txt'].flatMap(readFile).concat(ENDINGS);
}

function readFile(file: string): CorpusDocument[] {
  const text = readFileSync(new URL(`corpus/${file}`, import.meta.url), 'utf8');
  return text
    .split(/^#### /m)
    .slice(1)
    .map((section) => {
      const lineEnd = section.indexOf('\n');
      return { name: section.slice(0, lineEnd), text: HEADER + section.slice(lineEnd + 1) };
    });
}
