# SPDX-License-Identifier: GPL-2.0
# The recipe for NVMe over RDMA, by the kernel's own target (nvmet-rdma) and initiator (nvme-rdma); NVMe/TCP differs in one word.
# Sourced after common.sh.
#
#   nvme_disks NAME PATH...   a subsystem of the target: each block device or file is a disk of it
#   no_nvme_disks NAME
#   nvme_offer NUMBER TRANSPORT ADDRESS SERVICE NAME [BYTES]
#                             the target's port NUMBER (its name in configfs) offers that subsystem there; a write of up to
#                             so many bytes may come within its command
#   no_nvme_offer NUMBER
#   nvme_connect TRANSPORT ADDRESS SERVICE NAME [OPTION...]
#   nvme_disk NAME NUMBER     the initiator's block device of disk NUMBER of the subsystem
#   nvme_controller NAME      the folder in sysfs of the initiator's controller for it
NVMET=/sys/kernel/config/nvmet
HOST=(--hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111
	--hostid=11111111-1111-1111-1111-111111111111)

nvme_disks() {
	local subsystem=$NVMET/subsystems/$1 number=0 disk
	shift
	mkdir "$subsystem" && echo 1 >"$subsystem/attr_allow_any_host" || return
	for disk; do
		number=$((number + 1))
		mkdir "$subsystem/namespaces/$number" && echo "$disk" >"$subsystem/namespaces/$number/device_path" &&
			echo 1 >"$subsystem/namespaces/$number/enable" || return
	done
}
no_nvme_disks() { rmdir "$NVMET/subsystems/$1"/namespaces/* "$NVMET/subsystems/$1"; }

nvme_offer() {
	local port=$NVMET/ports/$1
	mkdir -p "$port" && echo "$2" >"$port/addr_trtype" && echo ipv4 >"$port/addr_adrfam" && echo "$3" >"$port/addr_traddr" &&
		echo "$4" >"$port/addr_trsvcid" && { [ -z "${6:-}" ] || echo "$6" >"$port/param_inline_data_size"; } &&
		ln -s "$NVMET/subsystems/$5" "$port/subsystems/"
}
no_nvme_offer() { rm -f "$NVMET/ports/$1"/subsystems/*; rmdir "$NVMET/ports/$1"; }

nvme_connect() {
	local transport=$1 address=$2 service=$3 name=$4
	shift 4
	limited nvme connect -t "$transport" -a "$address" -s "$service" -n "$name" --reconnect-delay=1 "${HOST[@]}" "$@"
}
# Their numbers in /dev say nothing of which is which.
nvme_disk() {
	local subsystem block
	subsystem=$(grep -lxsF "$1" /sys/class/nvme-subsystem/*/subsysnqn) || return
	for block in "${subsystem%/*}"/nvme*n*; do
		[ "$(cat "$block/nsid" 2>/dev/null)" != "$2" ] || echo "/dev/${block##*/}"
	done
}
nvme_controller() { echo "$(dirname "$(grep -lxsF "$1" /sys/class/nvme-subsystem/*/subsysnqn)")"/nvme[0-9]; }
