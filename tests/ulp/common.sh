# SPDX-License-Identifier: GPL-2.0
# For the scripts of this folder, which source this in place of tests/lib.sh. Target and initiator of most consumers live outside
# of network namespaces, so both are in the guest's own:
#
#   own_address        10.80.0.1 on the interface own0, with the device kiwown: both ends on one address
#   wire TYPE TYPE     10.81.0.1 on wire0 and 10.81.0.2 on wire1, whose packets to each other cross the wire; with the
#                      devices rwire0 and rwire1 of these types
#   wire TYPE TYPE 2   the same with 10.82.0.1, wire2 and rwire2, 10.82.0.2, wire3 and rwire3
#   no_interfaces      takes all away
#
#   load MODULE...     and "unloaded" takes away again all that these scripts load
#   ram_disks          /dev/ram0 and /dev/ram1, 128 MB each
#   verified FILE [OPTION...]
#                      fio writes blocks of 512 octets to 256 KB, 16 at a time, and compares them
#   busy DEVICE FILE [OPTION...]
#                      the same in the background, again and again until "idle", whose status is 0 if all that was read was
#                      what had been written; or until "gone", when there is nothing to write to any more
#   counter NAME DEVICE    of "rdma statistic"
#   objects KIND DEVICE    how many of them "rdma resource show" counts
#   at_rest DEVICE     no queue pair, protection domain, region or connection is left of it
#   kernel_says        the last lines of its log; status 1
#   no_queue_pair DEVICE   and no region: a listener may be there
#   sound DEVICE       the counters of its errors are 0
declare -F finish >/dev/null || . /src/tests/lib.sh

OWN=10.80.0.1
# A tree of small files, 6 MB, that is in every guest
TREE=$(echo /usr/lib/*/perl-base)
FIO=(--rw=randrw --bsrange=512-256k --size=32M --iodepth=16 --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1
	--verify_state_save=0)

own_address() {
	ip link add own0 type veth peer name own1
	ip addr add $OWN/24 dev own0
	ip link set own0 up
	ip link set own1 up
	rdma link add kiwown type kiwarp netdev own0
}

# What goes from one of two interfaces of a host to the other never leaves the host, unless rules that come before the table
# "local" say so, and the interface takes packets from the host's own addresses.
wire() {
	local first=${3:-0} net end type number
	net=10.$((81 + first / 2)).0
	ip link add wire$first type veth peer name wire$((first + 1))
	for end in 1 2; do
		number=$((first + end - 1)) type=${!end}
		sysctl -qw net.ipv4.conf.wire$number.accept_local=1
		ip addr add $net.$end/24 dev wire$number
		ip link set wire$number up
		rdma link add rwire$number type "$type" netdev wire$number
	done
	if [ "$first" = 0 ]; then
		ip rule add pref 100 lookup local
		ip rule delete pref 0
	fi
	for end in 1 2; do
		number=$((first + end - 1))
		ip rule add pref $((10 + number)) iif lo to $net.$((3 - end)) lookup $((10 + number))
		ip route add $net.$((3 - end)) dev wire$number src $net.$end table $((10 + number))
	done
}

no_interfaces() {
	local pref
	ip link delete own0 2>/dev/null
	ip link delete wire2 2>/dev/null
	ip link delete wire0 2>/dev/null || return 0
	ip rule add pref 0 lookup local
	for pref in 10 11 12 13 100; do ip rule delete pref $pref 2>/dev/null; done
	return 0
}

# A module that uses another one comes first.
CONSUMERS='nvme_rdma nvme_tcp nvme_fabrics nvme_keyring nvmet_rdma nvmet_tcp nvmet nvme nvme_core nvme_auth
	rpcrdma nfsd nfsv3 nfsv4 nfs ib_iser ib_isert ib_srp ib_srpt rnbd_client rnbd_server rtrs_client rtrs_server brd'
load() { modprobe -a "$@"; }
present() { [ -d "/sys/module/$1" ]; }
unloaded() {
	local module left=
	for module in $CONSUMERS; do
		! present "$module" || LIMIT=20 soon modprobe -r "$module" || left+=" $module"
	done
	[ -z "$left" ] || { echo "still loaded:$left"; lsmod; return 1; }
}

ram_disks() { present brd || modprobe brd rd_nr=2 rd_size=131072; }

verified() {
	local file=$1
	shift
	# Where a disk has gone, fio would make a file of its name.
	[[ $file != /dev/* ]] || set -- --allow_file_create=0 "$@"
	limited fio --name=verified --filename="$file" "${FIO[@]}" "$@" --output="$WORK/fio" || { grep -vE '^ |^$' "$WORK/fio"; return 1; }
}

busy() {
	local device=$1 start
	shift
	start=$(counter received_bytes "$device")
	rm -f "$WORK/stop"
	busy_loop "$@" >"$WORK/busy" 2>&1 &
	BUSY=$!
	LIMIT=30 soon received "$device" $((start + 10000000)) || { cat "$WORK/busy"; return 1; }
}
received() { link_there "$1" && [ "$(counter received_bytes "$1")" -gt "$2" ]; }
busy_loop() {
	until [ -e "$WORK/stop" ]; do
		LIMIT=200 verified "$@" || return
	done
}
idle() {
	local status=0
	: >"$WORK/stop"
	wait "$BUSY" || status=$?
	[ $status = 0 ] || tail -n 20 "$WORK/busy"
	return $status
}

# gone: what was busy has ended, since what it was busy with has gone
gone() {
	LIMIT=100 soon dead "$BUSY" || { echo "fio still runs"; return 1; }
	wait "$BUSY" || :
}
dead() { ! kill -0 "$1" 2>/dev/null; }

counter() { rdma -j statistic show link "$2/1" | jq -r ".[0].$1"; }
objects() { rdma resource show "$2" | sed -nE "s/.* $1 ([0-9]+).*/\1/p"; }
at_rest() {
	local kind
	for kind in qp pd mr cm_id; do [ "$(objects $kind "$1")" = 0 ] || return 1; done
}
# If not, what there is
rests() { soon at_rest "$1" || { rdma resource show "$1"; rdma resource show qp; rdma resource show cm_id; return 1; }; }
sound() {
	local bad
	bad=$(rdma -j statistic show link "$1/1" | jq -r '.[0] | to_entries[] | select(.value != 0) | select(.key |
		test("stream_errors|terminates|crc_errors|cq_overflows|ring_errors|connections_lost|mpa_malformed|mpa_timeouts")) |
		"\(.key) \(.value)"')
	[ -z "$bad" ] || { echo "$bad"; return 1; }
}
no_queue_pair() { [ "$(objects qp "$1") $(objects mr "$1")" = '0 0' ]; }
kernel_says() { dmesg | tail -n 8; return 1; }
link_there() { [ -e "/sys/class/infiniband/$1" ]; }
