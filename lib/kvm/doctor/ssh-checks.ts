/** The steps of the SSH connection as findings: each way to fail with the one thing that repairs it. */
import type { HostCheckName } from '../../provider/host-health.ts';
import type { HostProbe, ProbeStep, ProbeStepName } from '../../ssh/probe.ts';
import type { SshError } from '../../ssh/ssh-error.ts';
import { type Finding, fault, fine } from './finding.ts';
import type { HostReport } from './host-report.ts';

const CHECKS: Readonly<Record<ProbeStepName, HostCheckName>> = {
  tcp: 'tcp',
  handshake: 'ssh-handshake',
  'host-key': 'host-key',
  login: 'authentication',
};

export function recordSshChecks(report: HostReport, probe: HostProbe): void {
  for (const step of probe.steps) report.record(CHECKS[step.name], judgeStep(step, probe), step.ms);
}

/** Pure. */
export function judgeStep({ name, error }: ProbeStep, probe: HostProbe): Finding {
  if (error === null) return fine(SUCCESS[name](probe));
  return FAILURE[name](error, probe);
}

const SUCCESS: Readonly<Record<ProbeStepName, (probe: HostProbe) => string>> = {
  tcp: (probe) => `connected to ${peer(probe)}`,
  handshake: () => 'an SSH server answers, with algorithms in common',
  'host-key': (probe) => `known_hosts has ${hostKey(probe)}`,
  login: (probe) => `${probe.target.user} is let in with ${loginKey(probe)}`,
};

const FAILURE: Readonly<Record<ProbeStepName, (error: SshError, probe: HostProbe) => Finding>> = {
  tcp: (error, probe) => fault(error.message, tcpRemedy(error, probe)),
  handshake: (error) =>
    fault(
      error.message,
      error.reason === 'closed-early'
        ? 'see in sshd’s log on the host (journalctl -u ssh) why it turns connections away; with many at once, raise MaxStartups in sshd_config'
        : 'make an OpenSSH server of version 7.4 or newer answer on that port',
    ),
  'host-key': (error, probe) => judgeHostKey(error, probe),
  login: (error, probe) =>
    error.reason === 'auth-refused'
      ? fault(
          `${probe.target.user} is not let in with ${loginKey(probe)}`,
          `write the public half of that key into ~${probe.target.user}/.ssh/authorized_keys on the host, as docs/hosts.md says; ` +
            'if it is there, sshd’s log (journalctl -u ssh) has the reason',
        )
      : fault(error.message, 'see in sshd’s log on the host (journalctl -u ssh) why it breaks logins off'),
};

function tcpRemedy(error: SshError, probe: HostProbe): string {
  const { address, port } = probe.target;
  switch (errorCode(error)) {
    case 'ECONNREFUSED':
      return `start sshd on the host, on port ${port} (systemctl enable --now ssh)`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `make the name ${address} resolve where this runs, or configure the address`;
    default:
      return `let TCP port ${port} of the host be reached from where this runs (route, VPN, firewall)`;
  }
}

function judgeHostKey(error: SshError, probe: HostProbe): Finding {
  // Some of these errors name it themselves.
  const isNamed = error.message.includes(probe.hostKey?.fingerprint ?? '');
  const found = isNamed ? error.message : `the host presents ${hostKey(probe)}; ${error.message}`;
  const compare =
    'run `for k in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $k; done` on the host itself;';
  const scan = `\`ssh-keyscan -p ${probe.target.port} ${probe.target.address}\``;
  switch (error.reason) {
    case 'host-key-unknown':
      return fault(
        found,
        `${compare} if it prints that fingerprint, add what ${scan} prints to ssh.knownHosts`,
      );
    case 'host-key-changed':
      return fault(
        found,
        `${compare} if it prints that fingerprint, replace the line in ssh.knownHosts by what ${scan} prints; ` +
          'if not, trust none of it',
      );
    case 'host-key-revoked':
      return fault(
        found,
        'give the host a new key (ssh-keygen -A after removing the old one) and put it on file',
      );
    default:
      return fault(
        error.message,
        'see in sshd’s log on the host (journalctl -u ssh) what broke the handshake off',
      );
  }
}

const peer = ({ target }: HostProbe): string => `${target.address} port ${target.port}`;
const hostKey = ({ hostKey: key }: HostProbe): string =>
  key === null ? 'no key' : `${key.type} ${key.fingerprint}`;
const loginKey = ({ loginKey: key }: HostProbe): string => `the key ${key.fingerprint} (${key.type})`;

/** Of the socket's own error, which stands behind what ssh2 made of it. */
function errorCode(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at instanceof AggregateError ? at.errors[0] : at.cause) {
    if ('code' in at && typeof at.code === 'string') return at.code;
  }
  return null;
}
