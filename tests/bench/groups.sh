# SPDX-License-Identifier: GPL-2.0
# What is measured: each group sets the variables that describe a cell, and gives every contender its turns. "quick" leaves
# out what the claims don't stand and fall with. Sourced by run.sh.
# shellcheck disable=SC2034 # the variables are what the functions of the other files read

# first_iterations: how many are surely not too many for a first run
first_iterations() {
	case $method.$kind in
	bandwidth.send_events | cpu.send_events | counters.send_events) echo $((2 * AHEAD)) ;;
	bandwidth.* | cpu.* | pipe.*) if [ $((octets * qps)) -ge 1048576 ]; then echo 10; else echo 200; fi ;;
	connections.* | library.*) echo 50 ;;
	rate.*) echo 3200 ;;
	datagram_rate.* | datagram_bandwidth.* | loss.* | broadcast.* | storage.*) echo $((TENTHS * 100)) ;; # milliseconds
	storage_cpu.*) echo $((TENTHS * 200)) ;;
	counters.connection) echo 512 ;;
	counters.*) echo 4096 ;;
	*) echo 500 ;;
	esac
}

# next_iterations PACE: how many make a run as long as it should be
next_iterations() {
	case $method in
	bandwidth | pipe) iterations "$1" "$TENTHS" 5 3000000 1 ;;
	cpu) iterations "$1" $((2 * TENTHS)) 30 300000 1 ;;
	connections | library) iterations "$1" "$TENTHS" 30 50000 1 ;;
	clients) iterations "$1" "$TENTHS" 512 200000 1 ;; # two windows
	rate) iterations "$1" "$TENTHS" 320 3000000 32 ;;
	datagram_rate | datagram_bandwidth | loss | broadcast | storage | storage_cpu) first_iterations ;;
	*) iterations "$1" "$TENTHS" 1000 200000 1 ;;
	esac
}

# the_group NAME METHOD: the usual values of all variables
the_group() {
	group=$1 method=$2 kind=write octets=65536 qps=1 cpus=$(nproc)
	LIMIT=$((20 + TENTHS)) link=
	set_mtu 1500
	set_crc off
}

turns() { for contender; do turn "$rep" "$contender"; done; }

# stream_turns KIND CONTENDER...: for contenders that know neither kinds of operation nor a CRC
stream_turns() {
	local kind=$1 crc=none
	shift
	turns "$@"
}

# rxe_turns KINDS: rxe has its own CRC always
rxe_turns() {
	local kind crc=icrc
	for kind in $1; do turns rxe; done
}

# crc_rounds CRCS KINDS STREAMS [KINDS]: all repetitions of these kinds of ours and siw with each CRC, of those of TCP, and of those
# of rxe; the first is to warm up
crc_rounds() {
	local rep crc_now
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for crc_now in $1; do
			set_crc "$crc_now"
			for kind in $2; do turns ours siw; done
		done
		set_crc off
		for kind in $3; do stream_turns "$kind" tcp; done
		rxe_turns "${4:-}"
	done
}

group_bandwidth() {
	local rep mtu_now crc_now mtus="1500 9000 65535" sizes="65536 1048576" kinds="write send read" kinds_of_rxe
	the_group bandwidth bandwidth
	if [ $KERNELS = 2 ]; then
		# 65535 is more than the wires take.
		mtus="1500 9000" sizes="4096 65536 1048576"
		[ "$SCOPE" = full ] || sizes="4096 65536"
	elif [ "$SCOPE" = quick ]; then
		mtus="1500 65535" sizes=65536 kinds="write read"
	fi
	kinds_of_rxe=$kinds
	[ "$SCOPE" = full ] || kinds_of_rxe="write"
	for mtu_now in $mtus; do
		set_mtu "$mtu_now"
		echo "bandwidth, MTU $mtu"
		for ((rep = 0; rep <= REPETITIONS; rep++)); do
			for octets in $sizes; do
				for crc_now in off on; do
					# What small messages cost is little of it copies and CRCs.
					[ "$crc_now" = off ] || [ "$octets" != 4096 ] || continue
					set_crc "$crc_now"
					for kind in $kinds; do turns ours siw; done
				done
				set_crc off
				stream_turns stream tcp
				[ $KERNELS = 2 ] || stream_turns stream probe
				[ "$SCOPE.$octets" = quick.4096 ] || rxe_turns "$kinds_of_rxe"
				[ "$SCOPE" = full ] || continue
				stream_turns stream zerocopy
			done
		done
	done
}

group_latency() {
	local crcs="off on"
	the_group latency latency
	octets=64
	[ "$SCOPE" = full ] || crcs=off
	echo "latency"
	crc_rounds "$crcs" "write send read send_events" "stream stream_events" "write send read send_events"
}

# Targets are those of 10 Gbit/s with 200 us and 1 ms.
group_pipe() {
	local rep pipe pipes="10:200 10:1000 10:50 1:1000 25:200" kinds="write read"
	the_group pipe pipe
	[ "$SCOPE" = full ] || pipes="10:200 10:1000" kinds=write
	for pipe in $pipes; do
		set_link "${pipe%:*}" "${pipe#*:}" || exit 1
		echo "pipe, $link"
		for ((rep = 0; rep <= REPETITIONS; rep++)); do
			for octets in 65536 4096; do
				for kind in $kinds; do turns ours; done
				stream_turns stream tcp pipe
			done
		done
	done
	set_link
}

group_rate() {
	local rep how
	the_group rate rate
	octets=8
	echo "rate"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for how in list single; do
			kind=write_$how
			turns ours siw
			rxe_turns "$kind"
			stream_turns stream_$how tcp
		done
	done
}

group_connections() {
	local rep
	the_group connections connections
	octets=0 LIMIT=60
	echo "connections"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		turns ours siw
		rxe_turns "$kind"
		stream_turns stream tcp
	done
}

group_library() {
	local rep
	echo "library"
	the_group library-bandwidth library
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for octets in 65536 1048576; do
			turns ours module
			stream_turns stream tcp
		done
	done
	the_group library-connections library
	kind=connection octets=0 LIMIT=60
	for ((rep = 0; rep <= REPETITIONS; rep++)); do turns ours module; done
}

# Sends and Reads sleep until there is a completion, as the sockets do; perftest's Writes can't.
group_cpu() {
	local crcs="off on" kinds="write send_events read_events"
	the_group cpu cpu
	[ "$SCOPE" = full ] || crcs=off kinds=write
	echo "cpu"
	crc_rounds "$crcs" "$kinds" stream
}

# There is nothing to warm up, and figures hardly differ: three repetitions do. The cell says how many were asked for.
group_memory() {
	local rep n
	the_group memory memory
	octets=0 qps=10000 LIMIT=240
	echo "memory"
	for ((rep = 1; rep <= (REPETITIONS + 2) / 3; rep++)); do
		kind=idle
		turns ours siw
		stream_turns stream tcp
		kind=peers
		turns ours
	done
}

# largest_region: octets, 1 GB or the largest power of two that leaves a quarter of the memory
largest_region() {
	awk '/^MemAvailable:/ { for (n = 2 ^ 30; n > $2 * 768; n /= 2); printf "%.0f", n }' /proc/meminfo
}

# As those of memory, they hardly differ.
group_regions() {
	local rep cell
	the_group regions regions
	LIMIT=120
	echo "regions"
	for ((rep = 1; rep <= (REPETITIONS + 2) / 3; rep++)); do
		for cell in "calls 20000 4096" "calls 1 $(largest_region)" "exit 20000 4096"; do
			read -r kind qps octets <<<"$cell"
			turns ours siw
			rxe_turns "$kind"
		done
	done
}

# siw has no immediate data.
group_clients() {
	local rep
	the_group clients clients
	octets=64 qps=16 LIMIT=60
	echo "clients"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for kind in write_imm send; do
			turns ours
			[ $kind = write_imm ] || turns siw
			rxe_turns "$kind"
		done
	done
}

# Datagrams have their CRC always. Connections have it as well where it is on; sockets and siw compete without.
group_datagram() {
	local rep crc_now crcs="off on"
	[ "$SCOPE" = full ] || crcs=off
	echo "datagrams"
	the_group datagram-latency datagram_latency
	octets=64
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for crc_now in $crcs; do
			set_crc "$crc_now"
			for kind in ud_send record; do turns ours rc; done
		done
		rxe_turns ud_send
	done
	the_group datagram-rate datagram_rate
	kind=ud_send octets=1024
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for crc_now in $crcs; do
			set_crc "$crc_now"
			turns ours rc
			[ "$crc_now" = on ] || turns udp udp_segment udp_join
		done
		rxe_turns ud_send
	done
	the_group datagram-bandwidth datagram_bandwidth
	kind=record
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for crc_now in off on; do
			set_crc "$crc_now"
			for octets in 262144 1048576; do
				turns ours rc
				[ "$crc_now" = on ] || turns siw
			done
		done
	done
	set_crc off
}

# Ways that verbs have to the same end: each beside the plain one
group_verbs() {
	local rep
	echo "verbs"
	the_group verbs-connections connections
	kind=number octets=0 LIMIT=60
	for ((rep = 0; rep <= REPETITIONS; rep++)); do turns ours plain; done
	the_group verbs-latency latency
	kind=fetch_add octets=8
	for ((rep = 0; rep <= REPETITIONS; rep++)); do turns ours plain; done
	the_group verbs-rate datagram_rate
	octets=8
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for kind in srq_send extended_send extended_write; do turns ours plain; done
	done
}

group_loss() {
	local rep percent losses="0.1 0.5 1 5" sizes="65536 262144 1048576"
	the_group loss loss
	kind=record LIMIT=$((60 + TENTHS))
	[ "$SCOPE" = full ] || losses="0.1 1" sizes="65536 1048576"
	# Pieces of a message that lacks others would fill the memory for them, and keep whole ones out, for 30 s.
	right sysctl -qw net.ipv4.ipfrag_high_thresh=268435456 net.ipv4.ipfrag_time=1
	for percent in $losses; do
		set_loss "$percent" || exit 1
		echo "loss, $percent %"
		for ((rep = 0; rep <= REPETITIONS; rep++)); do
			for octets in $sizes; do turns ours whole rc; done
		done
	done
	set_loss
}

# One datagram for all receivers, or one message to each through a connection: what all of them get together.
group_broadcast() {
	local rep receivers="1 2 3 8" sizes="1024 32768"
	the_group broadcast broadcast
	kind=ud_send
	[ "$SCOPE" = full ] || receivers="1 3 8"
	echo "broadcast"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for octets in $sizes; do
			for qps in $receivers; do turns ours rc; done
		done
	done
}

# NVMe and NFS beside the same over TCP
group_storage() {
	local rep cell mtu_now mtus="1500 65535"
	local cells="nvme_randread_1:4096 nvme_randread_16:4096 nvme_read_16:131072 nvme_write_16:131072
		nfs_read_4:1048576 nfs_write_4:1048576 nfs_randread_16:4096"
	the_group storage storage
	[ "$SCOPE" = full ] || mtus=1500
	storage_up || exit 1
	for mtu_now in $mtus; do
		storage_mtu "$mtu_now"
		echo "storage, MTU $mtu"
		for ((rep = 0; rep <= REPETITIONS; rep++)); do
			for cell in $cells; do
				kind=${cell%:*} octets=${cell#*:}
				turns "${STORAGE[@]}"
			done
		done
	done
	echo "storage, processor time"
	the_group storage-cpu storage_cpu
	octets=131072
	for mtu_now in $mtus; do
		storage_mtu "$mtu_now"
		for ((rep = 0; rep <= REPETITIONS; rep++)); do
			for kind in nvme_read_16 nvme_write_16; do turns "${STORAGE[@]}"; done
		done
	done
	storage_down
}

group_sizes() {
	local rep sizes=(1 8 64 512 4096 16384 65536 262144 1048576 8388608)
	the_group sizes bandwidth
	[ "$SCOPE" = full ] || sizes=(8 4096 65536 1048576 8388608)
	echo "sizes"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for octets in "${sizes[@]}"; do
			turns ours siw
			stream_turns stream tcp
		done
	done
}

group_qps() {
	local rep numbers="1 8 64 512" processors
	the_group qps bandwidth
	LIMIT=60
	if [ "$(nproc)" = 1 ]; then processors=1; else processors="$(nproc) 1"; fi
	[ "$SCOPE" = full ] || numbers="1 64"
	echo "queue pairs"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for cpus in $processors; do
			for qps in $numbers; do turns ours siw; done
		done
	done
}

# Counts hardly vary: two repetitions show it, and nothing has to warm up.
group_counters() {
	local rep contender crc_now repetitions=2
	[ "$SCOPE" = full ] || repetitions=1
	the_group counters counters
	echo "counters"
	if ! can_count; then
		for contender in ours siw; do sample contender=$contender rep=1 absent="this guest has no module to count with"; done
		return
	fi
	load_counted || exit 1
	for ((rep = 1; rep <= repetitions; rep++)); do
		for crc_now in off on; do
			set_crc $crc_now
			octets=64
			for kind in write send_events; do turns ours siw; done
			octets=65536
			for kind in write send read; do turns ours siw; done
			octets=8 kind=write
			turns ours siw
		done
		set_crc off
		octets=65536 kind=send_events
		turns ours siw
		octets=0 kind=connection
		turns ours siw tcp
	done
	# What counts takes its time, too.
	load_drivers "${FAST_CRC[@]}" || exit 1
}
