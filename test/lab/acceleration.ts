/**
 * Finds out whether KVM runs guests here. That /dev/kvm exists and opens says little (nested virtualisation may
 * fail at the first instruction), so a guest is tried: one boot sector that ends QEMU with a status nothing else
 * gives.
 */
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandError, run } from './commands.ts';

export type VirtType = 'kvm' | 'qemu';

const TRIAL_TIMEOUT_MS = 15_000;
/** QEMU's isa-debug-exit device turns a written value v into the exit status 2v + 1. */
const EXIT_STATUS = 33;
// mov dx, 0x501; mov al, 0x10; out dx, al; hlt
const BOOT_CODE = Uint8Array.of(0xba, 0x01, 0x05, 0xb0, 0x10, 0xee, 0xf4);
/** More than the sector itself: the BIOS boots from no disk that is smaller than a cylinder. */
const DISK_BYTES = 64 * 1024;

/** How guests are to be run on this machine: with KVM where it works, else by emulation. */
export async function findVirtType(): Promise<VirtType> {
  const exists = await access('/dev/kvm').then(
    () => true,
    () => false,
  );
  return exists && (await runsGuest('kvm')) ? 'kvm' : 'qemu';
}

/** Whether the boot sector's instructions are executed under this accelerator of QEMU. */
export async function runsGuest(accelerator: 'kvm' | 'tcg'): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), 'kvmfn-lab-'));
  try {
    const disk = join(directory, 'boot.img');
    await writeFile(disk, buildBootDisk());
    const machine = [
      '-machine',
      'q35',
      '-accel',
      accelerator,
      '-nodefaults',
      '-display',
      'none',
      '-no-reboot',
    ];
    const devices = ['-device', 'isa-debug-exit', '-drive', `file=${disk},format=raw,if=ide,snapshot=on`];
    await run('qemu-system-x86_64', [...machine, ...devices], { timeoutMs: TRIAL_TIMEOUT_MS });
    return false;
  } catch (error) {
    return error instanceof CommandError && error.exitCode === EXIT_STATUS;
  } finally {
    await rm(directory, { recursive: true });
  }
}

function buildBootDisk(): Uint8Array {
  const disk = new Uint8Array(DISK_BYTES);
  disk.set(BOOT_CODE);
  disk.set([0x55, 0xaa], 510);
  return disk;
}
