import { afterAll, describe, expect, it } from 'vitest';
import { prepareUserData } from '../../../lib/seed/prepare-user-data.ts';
import { classifyUserData } from '../../../lib/seed/user-data-kind.ts';
import { Oracle, oracleIsInstalled } from './oracle.ts';

const KINDS: readonly [string, string, string][] = [
  ['#cloud-config\n', 'cloud-config', 'text/cloud-config'],
  ['\n\n#cloud-config\npackages: [curl]\n', 'cloud-config', 'text/cloud-config'],
  ['  #cloud-config\n', 'cloud-config', 'text/cloud-config'],
  ['\u00a0\u3000\u001c#cloud-config\n', 'cloud-config', 'text/cloud-config'],
  ['#Cloud-Config\n', 'cloud-config', 'text/cloud-config'],
  ['#cloud-config # my vm\n', 'cloud-config', 'text/cloud-config'],
  ['#cloud-config-archive\n- a\n', 'archive', 'text/cloud-config-archive'],
  ['#cloud-config-jsonp\n[]\n', 'jsonp', 'text/cloud-config-jsonp'],
  ['#cloud-config-other\n', 'cloud-config', 'text/cloud-config'],
  ['#cloud-boothook\n', 'boothook', 'text/cloud-boothook'],
  ['#include\nhttp://a\n', 'include', 'text/x-include-url'],
  ['#include-once\nhttp://a\n', 'include', 'text/x-include-once-url'],
  ['#part-handler\n', 'part-handler', 'text/part-handler'],
  ['## template: jinja\n#cloud-config\n', 'jinja', 'text/jinja2'],
  ['## TEMPLATE: Jinja\n#!/bin/sh\n', 'jinja', 'text/jinja2'],
  ['#!/bin/sh\n', 'script', 'text/x-shellscript'],
  ['#! /usr/bin/env python3\n', 'script', 'text/x-shellscript'],
];

describe('classifyUserData', () => {
  it.each(KINDS)('takes %j for %s', (text, kind, contentType) => {
    expect(classifyUserData(text)).toMatchObject({ kind, contentType });
  });

  it.each(['', ' \n\t ', '\u00a0\n'])('takes %j for empty', (text) => {
    expect(classifyUserData(text).kind).toBe('empty');
  });

  it('takes a text with “MIME-Version:” and no header for a message', () => {
    expect(classifyUserData('Content-Type: text/x-shellscript\nMIME-Version: 1.0\n\n#!/bin/sh\n').kind).toBe(
      'mime',
    );
  });

  it.each([
    ['##template: jinja\n#cloud-config\n', 'must read “## template: jinja”'],
    ['# cloud-config\na: b\n', 'must read “#cloud-config”'],
    ['#cloud_config\na: b\n', 'must read “#cloud-config”'],
    ['cloud-config:\n', 'must read “#cloud-config”'],
    ['hostname: h\n', 'without a header'],
    ['---\nhostname: h\n', 'without a header'],
    ['{"hostname": "h"}', 'without a header'],
    [Buffer.from('#cloud-config\nhostname: z1\n').toString('base64'), 'looks like base64'],
    ['echo hello\n', 'knows no user-data'],
  ])('refuses %j with the likely reason', (text, reason) => {
    expect(() => classifyUserData(text)).toThrow(reason);
  });
});

describe('the header on the seed', () => {
  it.each([
    '\n\n#cloud-config\npackages: [curl]\n',
    '  #cloud-config\npackages: [curl]\n',
    '#Cloud-Config\npackages: [curl]\n',
    '#cloud-config # my vm\npackages: [curl]\n',
  ])('UD-01: stands at byte 0, alone on its line, for %j', (text) => {
    const prepared = Buffer.from(prepareUserData(Buffer.from(text), '').userData).toString();

    expect(prepared).toMatch(/^#cloud-config\n/);
    expect(prepared).toContain('packages: [curl, qemu-guest-agent]\n');
  });

  it('UD-02: follows no byte-order mark', () => {
    const bytes = Buffer.concat([
      Buffer.from([0xef, 0xbb, 0xbf]),
      Buffer.from('#cloud-config\nhostname: a1\n'),
    ]);

    const prepared = prepareUserData(bytes, '');

    expect(prepared.kind).toBe('cloud-config');
    expect(Buffer.from(prepared.userData).subarray(0, 14).toString()).toBe('#cloud-config\n');
  });

  it('UD-06: is the longest that fits, so that an archive is not asked for a mapping', () => {
    const archive = '#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [nginx]\n';
    const note = '#cloud-config\n#cloud-config-archive-note\nhostname: h\n';

    expect(prepareUserData(Buffer.from(archive), '').kind).toBe('archive');
    expect(prepareUserData(Buffer.from('#cloud-config-jsonp\n[]'), '').kind).toBe('jsonp');
    expect(prepareUserData(Buffer.from(note), '').kind).toBe('cloud-config');
  });
});

describe.skipIf(!oracleIsInstalled)('cloud-init agrees', () => {
  const oracle = new Oracle();
  afterAll(() => oracle.close());

  it.each(KINDS)('about %j', async (text, _kind, contentType) => {
    expect(await oracle.classify(text)).toBe(contentType);
  });
});
