/**
 * What makes a guest run the QEMU guest agent, which is how its address is known before its network was heard of:
 * one package, and one command that starts it. And what counts as the user having asked for it already.
 */

export const AGENT_PACKAGE = 'qemu-guest-agent';

/**
 * The unit is called `qemu-ga` on SUSE. It is started, not enabled: on Debian the unit is static and `enable` fails.
 * cloud-init writes runcmd as one script, and calls the boot failed when the script does: so this line ends with the
 * status of the user's last command. One of its own would fail the boot of a VM that only lacks its agent, and success
 * would hide a failure of the user's. A list would be a process of its own, which does not see that status.
 */
export const AGENT_COMMAND =
  's=$?; systemctl start qemu-guest-agent || systemctl start qemu-ga || true; (exit $s)';

/** The agent's additions to a cloud-config: for each list one entry, as one line of YAML. */
export const AGENT_ENTRIES = {
  packages: AGENT_PACKAGE,
  runcmd: `'${AGENT_COMMAND}'`,
} as const;

export type AgentKey = keyof typeof AGENT_ENTRIES;

export const AGENT_KEYS: readonly AgentKey[] = ['packages', 'runcmd'];

const UNIT = /^(?:qemu-guest-agent|qemu-ga)(?:\.service)?$/;
const START_VERBS: readonly string[] = ['start', 'restart', 'reload-or-restart'];
const ENABLE_VERBS: readonly string[] = ['enable', 'reenable'];
const INIT_SCRIPTS = '/etc/init.d/';
const INIT_VERBS: readonly string[] = ['start', 'restart'];

/** @param name a package without its version */
export function isAgentPackage(name: string): boolean {
  return name === AGENT_PACKAGE;
}

/** Whether a shell command, or an argument vector joined by spaces, starts the agent in one of its parts. */
export function startsAgent(command: string): boolean {
  return command
    .replace(/^(?:\S*\/)?(?:ba|da)?sh\s+-\w*c\s+/, '')
    .split(/[;&|\n]+/)
    .map((part) =>
      part
        .trim()
        .replace(/^(?:sudo|exec|then|do)\s+/, '')
        .replace(/^(?:\/usr)?\/s?bin\//, ''),
    )
    .some((part) => startsUnit(part.split(/\s+/)));
}

/** Words and not one pattern over the line, which would try every pair of them. */
function startsUnit([program = '', ...words]: readonly string[]): boolean {
  if (/^systemctl\b/.test(program)) {
    const isEnabledNow = words.some((word) => /^--now\b/.test(word));
    const verb = words.findIndex(
      (word) => START_VERBS.includes(word) || (isEnabledNow && ENABLE_VERBS.includes(word)),
    );
    return verb !== -1 && words.slice(verb + 1).some((word) => UNIT.test(word));
  }
  const [unit = '', verb = ''] = /^(?:rc-)?service$/.test(program)
    ? words
    : program.startsWith(INIT_SCRIPTS)
      ? [program.slice(INIT_SCRIPTS.length), ...words]
      : [];
  return UNIT.test(unit) && INIT_VERBS.includes(verb);
}
