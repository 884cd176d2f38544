# SPDX-License-Identifier: GPL-2.0
# What scripts/demo --storage shows, in the guest; sourced there, by it. Server and client are one kernel's two ends of a wire, since
# an NVMe target lives outside of network namespaces.
. "$TOP/tests/ulp/common.sh"
. "$TOP/tests/ulp/nvme.sh"
. "$TOP/tests/ulp/nfs.sh"

MEGABYTES=64
NAME=nqn.2026-11.org.example
CLIENT_AT=10.81.0.1 SERVER_AT=10.81.0.2

# at HOST COMMAND...: shows and runs it
at() {
	printf '  %s$ %s\n' "$1" "${*:2}"
	"${@:2}" >"$WORK/said" 2>&1 || { tail -n 15 "$WORK/said" | indent; failed "$2"; }
	grep -v '^[0-9]*+[0-9]* records' "$WORK/said" | indent || :
}
# megabytes_a_second: of the dd that "at" has run
megabytes_a_second() { awk '/ copied, / { printf "%.0f", $1 / $(NF - 3) / 1e6 }' "$WORK/said"; }
# by_rdma: bytes that the client's device has sent and received
by_rdma() { echo $(($(counter sent_bytes rwire0) + $(counter received_bytes rwire0))); }
# same FILE: its checksum is that of the data
same() {
	local sum
	sum=$(head -c "${MEGABYTES}M" "$1" | sha256sum | cut -d ' ' -f 1)
	echo "    sha256 $sum  $1"
	[ "$sum" = "$SUM" ] || failed "$1 does not hold what was written"
}

# moved WAY FILE WRITTEN: the data are written into FILE, compared with what the server has in WRITTEN, and read back; sets
# FIGURES[WAY write] and [WAY read], and CARRIED[WAY] to the bytes that went by RDMA meanwhile
declare -A FIGURES CARRIED LABEL=([nvme]=NVMe [nfs]=NFS)
moved() {
	local before
	before=$(by_rdma)
	at client dd if="$WORK/data" of="$2" bs=1M oflag=direct conv=notrunc,fsync
	FIGURES[$1 write]=$(megabytes_a_second)
	sync
	echo 3 >/proc/sys/vm/drop_caches
	echo "  server: what it keeps"
	same "$3"
	at client dd if="$2" of="$WORK/read" bs=1M iflag=direct count=$MEGABYTES
	FIGURES[$1 read]=$(megabytes_a_second)
	echo "  client: what it has read"
	same "$WORK/read"
	CARRIED[$1]=$(($(by_rdma) - before))
}

# nvme_by TRANSPORT SERVICE PORT
nvme_by() {
	local disk
	echo "  server: its port $3 in $NVMET offers /dev/ram0 at $SERVER_AT, $1, $2"
	nvme_disks "$NAME:$1" /dev/ram0 && nvme_offer "$3" "$1" $SERVER_AT "$2" "$NAME:$1" || failed "the NVMe target"
	at client nvme connect -t "$1" -a $SERVER_AT -s "$2" -w $CLIENT_AT -n "$NAME:$1"
	LIMIT=20 soon there "$NAME:$1" || failed "the disk did not come"
	disk=$(nvme_disk "$NAME:$1" 1)
	moved "nvme $1" "$disk" /dev/ram0
	at client nvme disconnect -n "$NAME:$1"
	no_nvme_offer "$3"
}
there() { [ -b "$(nvme_disk "$1" 1)" ]; }

# nfs_by PROTOCOL OPTIONS
nfs_by() {
	at client mount -t nfs4 -o "proto=$1,vers=4.2$2" $SERVER_AT:/ $MOUNT
	grep " $MOUNT " /proc/mounts | grep -o 'proto=[a-z]*' | indent
	: >$EXPORT/data
	moved "nfs $1" $MOUNT/data $EXPORT/data
	at client umount $MOUNT
}

show_storage() {
	local way what
	title "Server and client: two interfaces, joined by a wire, each with a device of type kiwarp"
	modprobe -a nvmet-rdma nvmet-tcp nvme-rdma nvme-tcp nfsd rpcrdma nfs && ram_disks || failed "the kernel's modules"
	wire kiwarp kiwarp || failed "the wire"
	at client ip -br address show dev wire0
	at client rdma link show rwire0/1
	at server ip -br address show dev wire1
	at server rdma link show rwire1/1
	head -c "${MEGABYTES}M" /dev/urandom >"$WORK/data"
	SUM=$(sha256sum "$WORK/data" | cut -d ' ' -f 1)
	echo "  the data: $MEGABYTES MB"
	same "$WORK/data"

	title "An NVMe disk over RDMA"
	nvme_by rdma 4420 1
	title "The same over TCP"
	dd if=/dev/zero of=/dev/ram0 bs=1M count=$MEGABYTES oflag=direct 2>/dev/null
	nvme_by tcp 4421 2

	title "An NFS share over RDMA"
	echo "  server: nfsd, rpc.mountd; exportfs $EXPORT; RDMA on port 20049"
	serve >"$WORK/said" 2>&1 || { indent <"$WORK/said"; failed "the NFS server"; }
	nfs_by rdma ,port=20049
	title "The same over TCP"
	nfs_by tcp ''

	for way in rdma tcp; do no_nvme_disks "$NAME:$way" || failed "the NVMe target is still in use"; done
	no_service >/dev/null || :
	no_interfaces || :

	for way in nvme nfs; do
		[ "${CARRIED[$way rdma]}" -gt $((2 * MEGABYTES << 20)) ] || failed "$way: the data did not go by RDMA"
		[ "${CARRIED[$way tcp]}" = 0 ] || failed "$way over TCP has used RDMA"
	done
	title "Summary"
	{
		printf '%-28s %14s %14s\n' "" kiwarp TCP
		for way in nvme nfs; do
			for what in write read; do
				printf '%-28s %14s %14s\n' "${LABEL[$way]}, $what, MB/s" "${FIGURES[$way rdma $what]}" "${FIGURES[$way tcp $what]}"
			done
		done
		echo "$MEGABYTES MB each: the server kept what the client wrote, and the client read the same, by sha256 in all eight cases."
		echo "One run each, one request at a time: scripts/bench storage compares speeds."
		echo "kernel       $(uname -r), module kiwarp $(module_version)"
	} | indent
}
