#!/bin/bash
# The first process of a lab host, in mount, network, PID, UTS and IPC namespaces of its own: gives the host its private directories,
# says "ready", and from then on only reaps what daemons leave behind. Everything here ends with it; nothing is to be undone outside.
# usage: host-init.sh HOST_NAME HOST_DIRECTORY DEVICE...   (waits for a line on standard input before it does anything)
set -euo pipefail
read -r _go
name=$1 directory=$2
shift 2

hostname "$name"

# The kernel shows a network namespace's interfaces in a sysfs mounted from inside it; libvirt looks there for bridges. Without
# /sys/fs/cgroup libvirt makes no control groups: two hosts would use the same names in the one hierarchy there is.
umount --recursive --lazy /sys
mount -t sysfs sysfs /sys

# /dev holds what QEMU needs and nothing else. A /dev/kvm that opens but runs no guest must be absent: as long as it can be opened,
# libvirtd probes QEMU again on every define. Consoles get a devpts of the host's own.
devices=$(mktemp --directory)
mount -t tmpfs -o mode=0755 dev "$devices"
mkdir "$devices/net" "$devices/pts" "$devices/shm"
for device in null zero full random urandom tty net/tun "$@"; do
  cp --archive "/dev/$device" "$devices/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$devices/pts"
mount -t tmpfs -o mode=1777 shm "$devices/shm"
ln -s pts/ptmx "$devices/ptmx"
ln -s /proc/self/fd "$devices/fd"
ln -s /proc/self/fd/0 "$devices/stdin"
ln -s /proc/self/fd/1 "$devices/stdout"
ln -s /proc/self/fd/2 "$devices/stderr"
umount --recursive --lazy /dev # not only covered: libvirt moves every mount listed below /dev out of QEMU's way, and cannot move hidden ones
mount --move "$devices" /dev
rmdir "$devices"

# Bound, not copied: the test runner reads the pool and the logs from outside.
mount --bind "$directory/ssh" /etc/ssh
mount --bind "$directory/libvirt" /etc/libvirt
mount --bind "$directory/lib" /var/lib/libvirt
mount --bind "$directory/cache" /var/cache/libvirt
mount --bind "$directory/log" /var/log/libvirt
for file in passwd group shadow hosts; do
  mount --bind "$directory/etc/$file" "/etc/$file"
done
mount -t tmpfs -o mode=0755 run /run
mkdir -p /run/sshd /run/dbus /run/lock

exec 0</dev/null 2>>/var/log/libvirt/init.log
echo ready
exec 1>&2
# Daemons are orphans by design; bash reaps adopted children while it waits. Without that, libvirtd takes the remains of a
# QEMU it has killed for a process that will not die.
sleep infinity &
wait
