#!/bin/bash
# Builds the lab's guest: a Debian that boots by BIOS from a virtio disk, configures itself with cloud-init and runs the guest agent.
# usage: build-guest-image.sh WORK_DIRECTORY SUITE KERNEL_PACKAGE APT_OPTIONS_FILE SOURCES_FILE...   (writes WORK_DIRECTORY/image.qcow2)
# To be run in mount and PID namespaces of its own: whatever it mounts or starts then ends with it, also when it is killed.
set -euo pipefail
work=$1 suite=$2 kernel=$3 apt_options=$4
shift 4

root=$work/root disk=$work/image.raw
partition_offset=$((1024 * 1024))
partition_bytes=$((2047 * 1024 * 1024))

# In memory: dpkg makes sure of every file it writes, which takes most of the time on a disk.
mkdir "$root"
mount --no-mtab -t tmpfs -o mode=0755,size=2G root "$root"

# Under emulation every module of the initramfs is boot time: it gets what finds the root disk and nothing else. It is built with the
# kernel; update_initramfs=no spares building the same again when all packages are configured.
initramfs_hook='mkdir -p "$1/etc/initramfs-tools/conf.d" &&
  echo MODULES=list >"$1/etc/initramfs-tools/conf.d/modules" &&
  echo update_initramfs=no >"$1/etc/initramfs-tools/update-initramfs.conf" &&
  printf "%s\n" virtio_pci virtio_blk ext4 >"$1/etc/initramfs-tools/modules"'

# The guests have no internet, and still are to install what user-data lists: these packages stand in the image as an archive of its own.
# The agent has to come in that way too. In an image that has it already nobody would see that user-data lost it.
archive=$root/srv/packages
archive_hook='mkdir "$1/srv/packages" && cd "$1/srv/packages" &&
  APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --quiet=2 --option APT::Sandbox::User=root download qemu-guest-agent ed'

# usr-is-merged: what else merges /usr brings all of Perl along. locales: without it cloud-init ends in the status "error".
# openssh-server, cloud-guest-utils, fdisk: keys and disk growth can be seen. qemu-guest-agent: leaves, and what it depends on stays.
mmdebstrap --mode=root --variant=minbase --quiet \
  --aptopt="$apt_options" \
  --dpkgopt=force-confold \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --include="usr-is-merged,$kernel,systemd-sysv,udev,dbus,iproute2,cloud-init,cloud-guest-utils,fdisk,qemu-guest-agent,locales,openssh-server" \
  --essential-hook="$initramfs_hook" --customize-hook="$archive_hook" \
  "$suite" "$root" "$@"

cat >"$root/etc/fstab" <<'FSTAB'
LABEL=root / ext4 noatime,errors=remount-ro 0 1
FSTAB

chroot "$root" dpkg --purge qemu-guest-agent >/dev/null
for file in "$archive"/*.deb; do
  name=$(dpkg-deb --field "$file" Package).deb
  mv "$file" "$archive/$name"
  dpkg-deb --field "$archive/$name"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$name" "$(stat --format %s "$archive/$name")" "$(sha256sum <"$archive/$name" | cut -d ' ' -f 1)"
done >"$archive/Packages"

# Without a mirror and a name server nothing waits for one. The builder's own hostname, resolver and host keys must not travel either.
rm -rf "$root"/etc/apt/sources.list.d/* "$root"/etc/ssh/ssh_host_*
echo 'deb [trusted=yes] file:/srv/packages ./' >"$root/etc/apt/sources.list"
: >"$root/etc/resolv.conf"
: >"$root/etc/machine-id"
echo localhost >"$root/etc/hostname"
echo LANG=C.UTF-8 >"$root/etc/default/locale" # as in Debian's own cloud images: no locale is generated at first boot
cat >"$root/etc/cloud/cloud.cfg.d/90-lab.cfg" <<'CLOUD'
datasource_list: [NoCloud, None]
apt: { preserve_sources_list: true }
ssh_genkeytypes: [ed25519]
ssh: { emit_keys_to_console: false }
grub_dpkg: { enabled: false }
CLOUD

# What no test looks at is left out: under emulation it would cost each boot what installing the agent costs.
chroot "$root" systemctl enable --quiet systemd-networkd
chroot "$root" systemctl mask --quiet \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
  e2scrub_reap.service systemd-pstore.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount getty@tty1.service \
  modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service \
  modprobe@loop.service
mkdir -p "$root/etc/systemd/system-generators"
for generator in cryptsetup debug gpt-auto hibernate-resume integritysetup rc-local run system-update sysv veritysetup; do
  ln -s /dev/null "$root/etc/systemd/system-generators/systemd-$generator-generator"
done
cat >"$root/etc/dpkg/dpkg.cfg.d/lab" <<'DPKG'
path-exclude=/etc/init.d/*
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
force-unsafe-io
DPKG

mkdir -p "$root/boot/extlinux"
cat >"$root/boot/extlinux/extlinux.conf" <<'EXTLINUX'
DEFAULT debian
PROMPT 0
LABEL debian
  KERNEL /vmlinuz
  INITRD /initrd.img
  APPEND root=LABEL=root ro console=ttyS0,115200 loglevel=4 mitigations=off
EXTLINUX

# One partition, because cloud-init is to grow it. extlinux cannot read 64-bit or checksummed ext4.
truncate -s $((partition_offset + partition_bytes)) "$disk"
echo '2048,,L,*' | sfdisk -q "$disk"
dd if=/usr/lib/EXTLINUX/mbr.bin of="$disk" conv=notrunc status=none
mkfs.ext4 -q -L root -O '^64bit,^metadata_csum' -E "offset=$partition_offset" -d "$root" "$disk" $((partition_bytes / 1024))
umount --no-mtab "$root"

# The boot loader's own blocks can be written down only on a mounted file system. The mount takes its own offset: the partitions of loop
# devices are not scanned everywhere.
mount --no-mtab -o "loop,offset=$partition_offset,sizelimit=$partition_bytes" "$disk" "$root"
extlinux --install "$root/boot/extlinux" >/dev/null 2>&1
umount --no-mtab "$root"

qemu-img convert -c -W -m 4 -f raw -O qcow2 -o compat=1.1 "$disk" "$work/image.qcow2"
