/**
 * User-data that is delivered as it is because only the guest can read it: the little that can be checked before.
 */
import { isMap, isScalar, isSeq } from 'yaml';
import { readPyYaml } from './pyyaml-document.ts';
import { refusalAt } from './user-data-error.ts';
import { hasKnownHeader } from './user-data-kind.ts';

export type OtherKind = 'jinja' | 'archive' | 'jsonp' | 'include';

/** @throws UserDataError for what cloud-init would drop whatever the guest is like */
export function checkOtherKind(kind: OtherKind, text: string): void {
  switch (kind) {
    case 'jinja':
      checkJinja(text);
      break;
    case 'archive':
      checkArchive(text);
      break;
    case 'jsonp':
      checkJsonPatch(text);
      break;
    case 'include':
      checkInclude(text);
      break;
  }
}

/** The template's own first line picks the renderer; what it renders to must again have a header. */
function checkJinja(text: string): void {
  const [line = ''] = text.split('\n', 1);
  if (!/^##\s*template:\s*jinja\s*$/i.test(line)) {
    throw refusalAt(
      text,
      0,
      'a template header that cloud-init does not know; it must read “## template: jinja”',
    );
  }
  const rest = text.slice(line.length + 1);
  const isRendered = rest.trimStart().startsWith('{');
  if (!isRendered && !hasKnownHeader(rest)) {
    throw refusalAt(
      text,
      line.length + 1,
      'below “## template: jinja” cloud-init looks for a header such as “#cloud-config”',
    );
  }
}

function checkArchive(text: string): void {
  const document = readPyYaml(text);
  if (!isSeq(document.root)) {
    throw refusalAt(text, document.root?.range[0] ?? 0, 'a cloud-config-archive is a list of parts');
  }
  for (const item of document.root.items) {
    const part = document.targets.get(item) ?? item;
    if (!isMap(part) && !isScalar(part)) {
      throw refusalAt(
        text,
        item.range[0],
        'a part of an archive is a text, or a mapping with “content” and “type”',
      );
    }
  }
}

function checkJsonPatch(text: string): void {
  const patch = text.replace(/^#cloud-config-jsonp/, '');
  try {
    if (Array.isArray(JSON.parse(patch))) {
      return;
    }
  } catch {
    // The parser's message quotes the text: it is not passed on.
  }
  throw refusalAt(
    text,
    text.length - patch.length,
    'below “#cloud-config-jsonp” cloud-init reads a JSON patch: a list',
  );
}

function checkInclude(text: string): void {
  const urls = text.split(/\r?\n/).map((line) => line.replace(/^#include(?:-once)?/i, '').trim());
  if (urls.every((url) => url === '' || url.startsWith('#'))) {
    throw refusalAt(text, 0, 'an include without a URL');
  }
}
