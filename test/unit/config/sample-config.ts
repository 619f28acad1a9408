/** A sound configuration as text, for tests that break one thing in it. The keys are of throw-away key pairs. */
export const KEY_A = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDxHQhfuv5qKhdchrpSiU6ABYmiKUa39uirXWcZc9uKK';
export const KEY_B = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBkHgz/Cj/Bf2CMbLtA22I9CYsc5Q6QWGvRxtZ0tYUyn';

export const SAMPLE = `fleet: demo
ssh:
  user: kvmfn
  privateKey: { secret: kvm-functions/ssh-key }
  knownHosts:
    text: |
      10.20.0.11 ${KEY_A}
      [10.20.0.12]:2222 ${KEY_B}
hosts:
  - { name: kvm-a, address: 10.20.0.11, bridge: br0 }
  - { name: kvm-b, address: 10.20.0.12, port: 2222, bridge: br0 }
machineTypes:
  small: { vcpus: 1, memoryMiB: 1024 }
images:
  debian-12: { url: "https://example.com/d.qcow2", format: qcow2, checksum: "sha256:${'AB'.repeat(32)}" }
aws:
  vpc: { new: { cidr: 10.90.0.0/16, customerGatewayIp: 203.0.113.10, routes: [10.20.0.0/16] } }
  onPremCidrs: [10.20.0.0/16]
  egress: nat
  schedule: rate(5 minutes)
`;

/** The sample with one piece of text replaced. Fails when the piece is not there: such a test would test nothing. */
export function sampleWith(piece: string, replacement: string): string {
  if (!SAMPLE.includes(piece)) throw new Error(`the sample has no ${piece}`);
  return SAMPLE.replace(piece, replacement);
}

/** The line, from 1, on which the piece begins. */
export function lineOf(text: string, piece: string): number {
  const at = text.indexOf(piece);
  if (at < 0) throw new Error(`the text has no ${piece}`);
  return text.slice(0, at).split('\n').length;
}
