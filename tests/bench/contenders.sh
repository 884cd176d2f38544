# SPDX-License-Identifier: GPL-2.0
# The contenders, and how each is measured. Sourced by measure.sh.
#
# measure_METHOD CONTENDER ITERATIONS measures one run of the cell that the variables group, kind, octets, mtu, crc, qps, cpus and
# link describe. It sets "value" and, where that isn't iterations per second, "pace"; or "reason", and returns false. "note" is what
# a reader of the value has to know. Where the value is a median of the run, "mean" and "p99" are its mean and 99th percentile.

# Left device, right device, address in right
declare -A LEFT_DEV=([ours]=kiw0 [plain]=kiw0 [module]=kiw0 [library]=kiwu0 [siw]=siw0 [rxe]=rxe0)
declare -A RIGHT_DEV=([ours]=kiw1 [plain]=kiw1 [module]=kiw1 [library]=kiwu0 [siw]=siw1 [rxe]=rxe1)
declare -A ADDRESS=([ours]=10.77.0.2 [plain]=10.77.0.2 [module]=10.77.0.2 [library]=10.77.0.2 [siw]=10.78.0.2 [rxe]=10.80.0.2 [tcp]=10.77.0.2 [zerocopy]=10.77.0.2 [probe]=10.77.0.2)
# Where a server of rdma_cm listens: the interface of its sockets, or the device if there are none
declare -A LISTENER=([ours]=veth1 [plain]=veth1 [module]=veth1 [siw]=veth3 [rxe]=rxe1)
declare -A absent=()	# why a contender can't run here at all
FAST_CRC=(crc32c=bench_crc32c skb_crc32c=bench_skb_crc32c)
tracer=() server_tracer=()	# what client and server are started by
onlooker=	# the name of a server that has no part in what is measured
TOOLS=/usr/lib/kiwarp/tests
MODULES=/usr/lib/kiwarp/guest
IPERF3_MOST=1048576
AHEAD=8192	# messages that a sender by events may be ahead
CONTROL=10.79.0.2	# where the ends of a flow of datagrams agree, over a link that isn't measured
port=20000

# prepare: makes what the guests don't have by themselves
prepare() {
	local host
	for host in left right; do
		# Tens of thousands of connections are made and closed here: none of them shall hold its port for a minute.
		$host sysctl -qw net.ipv4.tcp_max_tw_buckets=0 net.ipv4.ip_local_port_range="10000 65000"
	done
	if everywhere insmod "$MODULES/bench_cpu.ko" 2>/dev/null; then
		echo "processor_time=the host's count of all that both ends use"
	else
		echo "processor_time=the guest's own count, by ticks"
	fi >>/out/about
	echo "system_call=$(system_call) us" >>/out/about
	fast_crc || return
	add_rxe || absent[rxe]="no rxe device can be made"
	[ $KERNELS = 2 ] || insmod "$MODULES/bench_probe.ko" || absent[probe]="its module didn't load"
}

# system_call: microseconds that a read or a write of one octet takes which does nothing else
system_call() {
	local n=200000 start=${EPOCHREALTIME/./}
	taskset -c 0 dd if=/dev/zero of=/dev/null bs=1 count=$n 2>/dev/null
	awk -v us=$((${EPOCHREALTIME/./} - start)) -v n=$n 'BEGIN { printf "%.2f", us / (2 * n) }'
}

# load_drivers OLD=NEW...: loads the modules of both drivers, or of the one that is loaded, once more, with the names of the
# functions that they import changed. What was loaded stays in $WORK.
load_drivers() {
	export WORK
	export -f load_here
	everywhere bash -c 'load_here "$@"' bash "${@/#/--redefine-sym=}" || return
	rlink left kiw0 kiwarp veth0 && rlink right kiw1 kiwarp veth1 || return
	[ ! -e /sys/module/siw ] || { rlink left siw0 siw veth2 && rlink right siw1 siw veth3; }
}
load_here() {
	local module file
	for module in kiwarp siw; do
		[ ! -e /sys/module/$module ] || rmmod $module || return
	done
	# Without a parameter that matters: what its switches are is set for every cell.
	for module in "$(modinfo -n kiwarp)" /siw/siw_crc.ko; do
		[ -e "$module" ] || continue
		file=$WORK/${module##*/}
		objcopy "$@" "$module" "$file" && insmod "$file" || return
	done
}
rlink() { "$1" rdma link add "$2" type "$3" netdev "$4"; }

# fast_crc: gives both drivers the same fast CRC function where the kernel has none of its own, see bench_crc_main.c
fast_crc() {
	local driver
	if [ ! -e "$MODULES/bench_crc.ko" ]; then
		echo "crc=the kernel's own" >>/out/about
		return
	fi
	if ! everywhere insmod "$MODULES/bench_crc.ko"; then
		echo "crc=the table of User-Mode Linux, far slower than a real kernel's: this processor has no instruction for it" >>/out/about
		return
	fi
	load_drivers "${FAST_CRC[@]}" || return
	for driver in kiwarp siw_crc; do say_crc_of $driver; done
	echo "crc=the same function in both drivers, that of this kernel for x86 (tests/bench/modules/bench_crc_main.c)" >>/out/about
}

# say_crc_of DRIVER: which functions for CRCs the driver calls that was loaded out of $WORK
say_crc_of() {
	echo "crc_of_$1=$(nm -u "$WORK/$1.ko" | awk '/crc32/ { printf "%s%s", n++ ? ", " : "", $2 }')" >>/out/about
}

# add_rxe: links for Soft-RoCE, which get a fast function for their CRC where the others have got one
add_rxe() {
	export WORK
	export -f load_rxe_here
	everywhere bash -c load_rxe_here && rlink left rxe0 rxe veth6 && rlink right rxe1 rxe veth7 || return
	[ ! -e "$WORK/rdma_rxe.ko" ] || say_crc_of rdma_rxe
}
load_rxe_here() {
	local file=$WORK/rdma_rxe.ko needs
	if [ ! -e /sys/module/bench_crc ]; then
		modprobe rdma_rxe
		return
	fi
	needs=$(modinfo -F depends rdma_rxe | tr , ' ')
	# Names of modules
	# shellcheck disable=SC2086
	modprobe -a $needs && objcopy --redefine-sym crc32_le=bench_crc32_le "$(modinfo -n rdma_rxe)" "$file" && insmod "$file"
}

set_mtu() {
	local n
	[ "${mtu:-}" != "$1" ] || return 0
	mtu=$1
	for n in 0 2 6; do
		left ip link set "veth$n" mtu "$mtu"
		right ip link set "veth$((n + 1))" mtu "$mtu"
	done
}
set_crc() {
	local is_on=0
	[ "${crc:-}" != "$1" ] || return 0
	crc=$1
	[ "$crc" = off ] || is_on=1
	parameter kiwarp crc $is_on
	[ ! -e /sys/module/siw ] || parameter siw mpa_crc_required $is_on
}

# set_link [GBIT MICROSECONDS]: the link of TCP and ours carries so many gigabits a second in each direction, with that round trip
# besides its own, or is without bounds
set_link() {
	local side host device
	link=
	for side in "left veth0" "right veth1"; do
		read -r host device <<<"$side"
		$host tc qdisc delete dev "$device" root 2>/dev/null
		[ $# = 0 ] || $host tc qdisc add dev "$device" root netem limit 100000 rate "$1gbit" delay $(($2 / 2))us || return
	done
	[ $# = 0 ] || link="$1 Gbit/s, $2 us"
}

# set_loss [PERCENT]: of the packets to right, so many are lost. netem would lose as one what UDP and TCP leave for the interface to
# cut up. TBF is the discipline that cuts it up and has another behind it: what is longer than a burst of 2000 bytes. It wants a rate,
# which isn't to bound anything: at 10^16 bits a second a packet takes less than the nanosecond in which TBF counts, so that none ever
# waits for a token.
set_loss() {
	link=
	left tc qdisc delete dev veth0 root 2>/dev/null
	[ $# != 0 ] || return 0
	left tc qdisc add dev veth0 root handle 1: tbf rate 10000tbit burst 2000 limit 100000000 &&
		left tc qdisc add dev veth0 parent 1: netem limit 100000 loss "$1%" || return
	link="$1 % lost"
}

# both SERVER... -- CLIENT...: runs both, the client once the server listens on $port; both must end with 0. Leaves their
# output in $WORK/server and $WORK/client, and sets "reason" when it didn't work
both() {
	local server=() pid status=0 server_status=0 pin=()
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	reason=
	# What TCP does for a process runs on its processor here. A driver's own threads aren't bound by this.
	[ "$cpus" != 1 ] || pin=(taskset -c 0)
	right timeout -k 2 "$LIMIT" "${pin[@]}" "${server_tracer[@]}" "${server[@]}" >"$WORK/server" 2>&1 &
	pid=$!
	PORT=$port pause_until ready "$pid"
	[ -z "$onlooker" ] || retire "$onlooker" &
	left timeout -k 2 "$LIMIT" "${pin[@]}" "${tracer[@]}" "$@" >"$WORK/client" 2>&1 || status=$?
	[ $status = 0 ] || kill "$pid" 2>/dev/null
	wait "$pid" || server_status=$?
	port=$((port + 1))
	if [ $status != 0 ]; then
		reason="client: $(why $status)"
	elif [ $server_status != 0 ]; then
		reason="server: $(why $server_status)"
	fi
	[ -z "$reason" ]
}

# retire NAME: perftest's server polls until the client is through, even where it has nothing to do. From when much has been moved
# on, which is behind all that it has to say before, it gets little of a processor.
retire() {
	export -f retire_here moved_so_far
	right bash -c 'retire_here "$1"' bash "$1"
}
retire_here() {
	local child start now
	start=$(moved_so_far)
	# In one guest, the client has the same name, and is younger.
	while sleep 0.1 && child=$(pgrep -o -x "$1"); do
		now=$(moved_so_far)
		if [ $((now - start)) -gt 50000000 ]; then
			chrt -d -T 500000 -D 20000000 -P 20000000 -p 0 "$child"
			return
		fi
	done
}

# moved_so_far: octets that the server's devices have sent and received
moved_so_far() { awk 'NR > 2 { n += $2 + $10 } END { printf "%.0f", n }' /proc/net/dev; }

# ready PID: the server listens, or is no more. With rdma_cm it listens on one device after the other: on that of $listener, too.
ready() {
	! kill -0 "$1" 2>/dev/null || case ${listener:-} in
	'') listens ;;
	rxe*) right rdma resource show cm_id link "$listener" | grep -qE "state LISTEN .*:$PORT( |$)" ;;
	*) listens && right ss -Hltn "sport = :$PORT" | grep -q "%$listener:" ;;
	esac
}

# perftest CONTENDER TOOL ITERATIONS OPTION...: sets "line" to the line of figures
perftest() {
	for _ in once again; do
		one_perftest "$@" || return
		timeless "$line" || return 0
	done
}
one_perftest() {
	local contender=$1 tool=$2 n=$3 listener=${LISTENER[$1]:-}
	shift 3
	local options=(-R -F -s "$octets" -n "$n" "$@")
	[ "$qps" = 1 ] || options+=(-q "$qps")
	for _ in once again "and again"; do
		both "$tool" -d "${RIGHT_DEV[$contender]}" "${options[@]}" -p "$port" -- \
			"$tool" -d "${LEFT_DEV[$contender]}" "${options[@]}" -p "$port" "${ADDRESS[$contender]}" && break
		died_of_retrying "$reason" "$tool" || return
	done
	[ -z "$reason" ] || return
	perftest_line "$WORK/client" "$octets" $((n * qps))
}

# bench_tcp ITERATIONS MODE OPTION...: sets "line" to what it prints
bench_tcp() {
	local n=$1 mode=$2
	shift 2
	both $TOOLS/bench_tcp "$mode" server "${ADDRESS[tcp]}" "$port" --count "$n" "$@" -- \
		$TOOLS/bench_tcp "$mode" client "${ADDRESS[tcp]}" "$port" --count "$n" "$@" || return
	line=$(cat "$WORK/client")
}

# sleeping: sets "options" to what has perftest sleep until there is a completion, if that is the kind. A sender that has used
# up what it may send is told in memory that it may go on, which wakes nobody: it may send more than the receiver is ever behind.
# There are no more receives than messages, though: in a run of fewer than AHEAD the last message may wait.
sleeping() {
	options=()
	[ "$kind" = "${kind%_events}" ] || options=(-e)
	[ "$kind" != send_events ] || options+=(-r "$AHEAD")
}

# measure_bandwidth: megabytes (10^6) per second. Sets "moved" to the octets.
measure_bandwidth() {
	local n=$2 options=()
	moved=$((n * octets * qps))
	case $1 in
	tcp)
		# By time, whole seconds: told how much to send (-n), iperf3 sees the end at its next second only.
		[ "$octets" -le "$IPERF3_MOST" ] || note="iperf3 writes 1 MB at a time, which is its most"
		both iperf3 -s -1 -B "${ADDRESS[tcp]}" -p "$port" -- \
			iperf3 -c "${ADDRESS[tcp]}" -p "$port" -l $((octets < IPERF3_MOST ? octets : IPERF3_MOST)) \
			-t "${seconds:-1}" -J &&
			iperf3_figure "$WORK/client" && moved=$(jq .end.sum_received.bytes "$WORK/client")
		;;
	zerocopy) bench_tcp "$n" messages --zerocopy --octets "$octets" && figure "$line" 1 0.01 1000000 "${octets}e-6" ;;
	probe)
		# The inner shell's business
		# shellcheck disable=SC2016
		both bash -c 'echo "$0" >/dev/bench_probe' "receive $port $octets" -- \
			bash -c 'exec 3<>/dev/bench_probe && echo "$0" >&3 && cat <&3' \
			"send ${ADDRESS[probe]} $port $octets $n" && probe_figure "$WORK/client"
		;;
	*)
		sleeping
		# To find the peak takes perftest the square of the number of messages: a minute for 200,000.
		options+=(-N)
		# It counts 2^20 octets.
		perftest "$1" "ib_${kind%_events}_bw" "$n" "${options[@]}" && figure "$line" 4 0.0001 1000000 1.048576
		;;
	esac || return
	pace=$(awk -v v="$value" -v o="$octets" -v q="$qps" 'BEGIN { print v * 1e6 / o / q }')
}

# measure_pipe: as measure_bandwidth. The contender "pipe" is what TCP could carry: the rate, less the headers of each packet, which
# are 14 octets of Ethernet, 20 of IP and 32 of TCP with its time stamps. netem counts them all, also of packets that TCP
# leaves for the interface to cut.
measure_pipe() {
	[ "$1" = pipe ] || { measure_bandwidth "$@"; return; }
	figure "$(awk -v gbit="${link%% *}" -v mtu="$mtu" 'BEGIN { printf "%.6f", gbit * 125 * (mtu - 52) / (mtu + 14) }')" 1 0.01 1000000 1
	pace=$value
}

# measure_latency: microseconds; half of a round trip, except for Reads and atomics
measure_latency() {
	local n=$2 options=() mode=spinning tool=ib_${kind%_events}_lat
	case $1.$kind in
	ours.fetch_add) tool=ib_atomic_lat options=(-A FETCH_AND_ADD) ;;
	plain.fetch_add) tool=ib_read_lat ;;
	esac
	case $kind in
	*_events) options=(-e) mode=blocking ;;
	*)
		if [ "$KERNELS$(nproc)" = 11 ]; then
			reason="one processor can't run two that poll"
			return 1
		fi
		;;
	esac
	# Else the scheduler puts them on one processor, or on two, for as long as it likes.
	local tracer=(taskset -c 0) server_tracer=(taskset -c $(($(nproc) - 1)))
	if [ "$1" = tcp ]; then
		both $TOOLS/bench_pingpong $mode server "${ADDRESS[tcp]}" "$port" "$octets" "$n" -- \
			$TOOLS/bench_pingpong $mode client "${ADDRESS[tcp]}" "$port" "$octets" "$n" || return
		latency_figures "$(cat "$WORK/client")" 1 2 3
	else
		perftest "$1" "$tool" "$n" "${options[@]}" && latency_figures "$line" 5 6 8
	fi || return
	pace=$(awk -v v="$value" 'BEGIN { print 1e6 / (2 * v) }')
}

# datagrams CONTENDER MODE OPTION...: what that contender does in place of the cell's kind; sets "line" to what it prints
datagrams() {
	local device=ours does=$kind mode=$2 how=()
	case $kind in srq_* | extended_*) does=rc_${kind#*_} ;; esac
	case $1.$kind in
	ours.srq_*) how=(--srq) ;;
	ours.extended_*) how=(--extended) ;;
	rc.ud_send) does=rc_send ;;
	rc.record) does=rc_write ;;
	siw.*) device=siw does=rc_write ;;
	rxe.*) device=rxe ;;
	whole.*) does=ud_send ;;
	esac
	local options=(--kind "$does" --data "${ADDRESS[$device]}" --octets "$octets" "${how[@]}" "${@:3}")
	both $TOOLS/bench_datagram "$mode" server $CONTROL "$port" --device "${RIGHT_DEV[$device]}" "${options[@]}" -- \
		$TOOLS/bench_datagram "$mode" client $CONTROL "$port" --device "${LEFT_DEV[$device]}" "${options[@]}" || return
	line=$(cat "$WORK/client")
}

# arrived FIELD: a note if that field of "line" says that less has come than was sent
arrived() { note=$(awk -v f="$1" '$f < 99.95 { printf "%.1f %% arrived", $f }' <<<"$line"); }

# measure_datagram_latency: microseconds; half of a round trip. Who waits polls, for Writes through a connection the memory.
measure_datagram_latency() {
	if [ "$KERNELS$(nproc)" = 11 ]; then
		reason="one processor can't run two that poll"
		return 1
	fi
	local tracer=(taskset -c 0) server_tracer=(taskset -c $(($(nproc) - 1)))
	datagrams "$1" latency --count "$2" && latency_figures "$line" 1 2 3 || return
	pace=$(awk -v v="$value" 'BEGIN { print 1e6 / (2 * v) }')
}

# measure_datagram_rate CONTENDER MILLISECONDS: thousands of messages per second that have come, sent in lists of 32, with up to 256
# under way
measure_datagram_rate() {
	local options=(--list 32 --ms "$2") field=3
	case $1 in
	udp*)
		field=2
		options+=(--octets "$octets" --data "${ADDRESS[tcp]}")
		[ "$1" = udp ] || options+=(--segment)
		[ "$1" != udp_join ] || options+=(--join)
		both $TOOLS/bench_udp messages server $CONTROL "$port" "${options[@]}" -- \
			$TOOLS/bench_udp messages client $CONTROL "$port" "${options[@]}" && line=$(cat "$WORK/client") &&
			figure "$line" 1 0.01 1000000000 0.001
		;;
	*) datagrams "$1" flow "${options[@]}" --window 256 && figure "$line" 2 0.01 1000000000 0.001 ;;
	esac && arrived $field
}

# measure_datagram_bandwidth CONTENDER MILLISECONDS: megabytes (10^6) per second that have come. What is under way, a few messages, is
# bounded so that the receiver needn't drop any.
measure_datagram_bandwidth() {
	datagrams "$1" flow --ms "$2" --window $((octets > 524288 ? 4 : 8)) --sleep && figure "$line" 1 0.0001 1000000 1e-6 && arrived 3
}

# measure_loss CONTENDER MILLISECONDS: the same where packets get lost. Of a message that was written all counts that has come, of
# Sends those that are whole, each as long as a datagram can be. An incomplete message takes up one of the target's 64 records until
# its time is over: that many are never under way.
measure_loss() {
	local options=(--ms "$2" --sleep) window=$((octets > 524288 ? 4 : octets > 65536 ? 12 : 48))
	case $1 in
	ours) options+=(--record-timeout 10) window=$((octets > 524288 ? 8 : octets > 65536 ? 24 : 48)) ;;
	whole) window=$((window * ((octets + 65482) / 65483))) ;;
	rc) window=$((octets * 48 > 4194304 ? 4194304 / octets : 48)) ;;
	esac
	datagrams "$1" flow "${options[@]}" --window $window && figure "$line" 1 0.0001 1000000 1e-6 && arrived 3
}

# measure_broadcast CONTENDER MILLISECONDS: megabytes (10^6) per second that all receivers have got, $qps of them
measure_broadcast() {
	local window=$((octets > 4096 ? 16 : 128))
	datagrams "$1" broadcast --receivers "$qps" --list $((window / 8)) --ms "$2" --window $window &&
		figure "$line" 1 0.0001 1000000 1e-6 && arrived 3
}

# measure_rate: thousands of messages per second, by single requests or by lists of 32. TCP sends one message at a time, of which it
# may put several in a segment, as it does unless it is told not to; or the octets of 32 messages at a time.
measure_rate() {
	local options=(-N)
	case $1.$kind in
	tcp.stream_single) bench_tcp "$2" messages --octets "$octets" && figure "$line" 1 0.01 1000000000 0.001 ;;
	tcp.stream_list) bench_tcp $(($2 / 32)) messages --octets $((32 * octets)) && figure "$line" 1 0.01 1000000000 0.032 ;;
	*)
		[ "$kind" = write_single ] || options=(-l 32)
		perftest "$1" ib_write_bw "$2" "${options[@]}" && figure "$line" 5 0.00001 1000000 1000
		;;
	esac || return
	pace=${value}e3
}

# measure_connections: made and closed per second; by number, what it is compared with is rdma_cm
measure_connections() {
	local server=() client=() listener=
	[ "$1" != rxe ] || listener=${LISTENER[rxe]}
	[ "$1.$kind" != ours.number ] || server=(--device "${RIGHT_DEV[ours]}") client=(--device "${LEFT_DEV[ours]}")
	if [ "$1" = tcp ]; then
		bench_tcp "$2" connections
	else
		both $TOOLS/bench_cm connections server "${ADDRESS[$1]}" "$port" --count "$2" "${server[@]}" -- \
			$TOOLS/bench_cm connections client "${ADDRESS[$1]}" "$port" --count "$2" "${client[@]}" && line=$(cat "$WORK/client")
	fi && figure "$line" 1 0.1 10000000 1
}

# measure_clients CONTENDER REQUESTS: thousands of requests per second that a server of one thread answers; $qps clients have up to 256
# under way each
measure_clients() {
	local options=(--data "${ADDRESS[$1]}" --clients "$qps" --octets "$octets" --count "$2")
	both $TOOLS/bench_server "$kind" server $CONTROL "$port" "${options[@]}" -- \
		$TOOLS/bench_server "$kind" client $CONTROL "$port" "${options[@]}" &&
		figure "$(cat "$WORK/client")" 1 0.001 1000000000 0.001 || return
	pace=$(awk -v v="$value" -v n="$qps" 'BEGIN { print v * 1000 / n }')
}

# measure_regions CONTENDER REGIONS: microseconds for a region that is registered and deregistered, or that a process holds when it ends
measure_regions() {
	local status=0
	left timeout -k 2 "$LIMIT" $TOOLS/bench_regions "$kind" "${LEFT_DEV[$1]}" "$2" --octets "$octets" >"$WORK/client" 2>&1 ||
		status=$?
	if [ $status != 0 ]; then
		reason=$(why $status)
		return 1
	fi
	figure "$(cat "$WORK/client")" 1 0.001 100000000 1
}

# measure_library: as measure_connections or measure_bandwidth; what is ours there is the device without a module
measure_library() {
	local who=$1 how=bandwidth tracer=() server_tracer=() onlooker=ib_write_bw
	[ "$who" != ours ] || who=library tracer=("$TOOLS/kiwarp-user") server_tracer=("$TOOLS/kiwarp-user")
	[ "$kind" != connection ] || how=connections onlooker=
	"measure_$how" "$who" "$2"
}

# processor_time: sets "used" to the microseconds of processor time that both ends have used, interrupts included
processor_time() {
	export -f used_here
	used=$(everywhere bash -c used_here | awk '{ n += $1 } END { printf "%.0f", n }')
}
used_here() {
	local cpu
	# What a process has used is only known when its address space is gone, for which another has to run there.
	for ((cpu = 0; cpu < $(nproc); cpu++)); do taskset -c $cpu true; done
	if [ -e /proc/bench_cpu ]; then
		cat /proc/bench_cpu
	else
		awk '/^cpu / { printf "%.0f\n", ($2 + $3 + $4 + $7 + $8) * 10000 }' /proc/stat
	fi
}

# measure_cpu: seconds of processor time for 10^9 octets. It is what a long run takes more than a short one, so that the
# programs' start doesn't count. Nor does the polling of a server that waits for the client's end.
measure_cpu() {
	local used start short=$(($2 / 6 + 5)) first moved before seconds=1 onlooker=
	case $kind in write | read*) onlooker=ib_${kind%_events}_bw ;; esac
	processor_time && start=$used
	measure_bandwidth "$1" "$short" || return
	processor_time && first=$((used - start)) start=$used before=$moved seconds=3
	measure_bandwidth "$1" "$(($2 + short))" || return
	processor_time
	per_gigabyte $((used - start - first)) $((moved - before))
}

settled_memory() {
	# Freed memory goes home after grace periods and by work queues.
	sleep 2
	sync
	echo 3 >/proc/sys/vm/drop_caches
	kernel_memory /proc/meminfo
}

# idle_pair CONNECTIONS: one more pair of programs, which holds so many that are idle, or as many as it can. Adds to "pids" and "held".
idle_pair() {
	local mine=() up
	# Nobody may take what an earlier one has said for its word.
	rm -f "$WORK"/{server,client}
	right timeout -k 2 "$LIMIT" "$TOOLS/${tool[0]}" "${tool[1]}" server "$at" "$port" --count "$1" "${server[@]}" >"$WORK/server" 2>&1 &
	mine=($!)
	PORT=$port pause_until settled "${mine[0]}"
	left timeout -k 2 "$LIMIT" "$TOOLS/${tool[0]}" "${tool[1]}" client "$at" "$port" --count "$1" "${client[@]}" >"$WORK/client" 2>&1 &
	mine+=($!)
	pause_until idle_or_gone "${mine[1]}"
	pids+=("${mine[@]}")
	port=$((port + 1))
	up=$(sed -n 's/^up //p' "$WORK/client")
	if [ "${up:-0}" = 0 ] || ! kill -0 "${mine[@]}" 2>/dev/null; then
		reason="the connections didn't come up"
		return 1
	fi
	held=$((held + up))
}
end_pairs() {
	kill "${pids[@]}" 2>/dev/null
	wait "${pids[@]}" 2>/dev/null
	pids=()
}

# spread_memory CONNECTIONS: as much as one pair of programs can hold, which is far too little to be told from what memory varies by
# itself, in each of several pairs. What pairs with one connection take comes off, as that of the programs.
spread_memory() {
	local each=$1 pairs=16 i
	held=0
	for ((i = 0; i < pairs; i++)); do idle_pair 1 || return; done
	before=$(settled_memory)
	end_pairs
	held=0
	for ((i = 0; i < pairs; i++)); do idle_pair "$each" || return; done
	after=$(settled_memory)
	end_pairs
	held=$((held - pairs))
	note="$each in each of $pairs pairs of programs: no more fit into one"
}

# measure_memory CONTENDER CONNECTIONS: kilobytes of kernel memory that one end of an idle connection takes; with a queue pair of 16
# requests each way, where it has one. Or that one end takes for each peer of a datagram queue pair, that queue pair and all else of
# both programs included; peers come and go, and the one end keeps an address handle for each.
measure_memory() {
	local tool=(bench_cm idle) at=${ADDRESS[$1]} server=() client=() ends=2 before after pids=() held=0
	[ "$1" != tcp ] || tool=(bench_tcp idle)
	if [ "$kind" = peers ]; then
		tool=(bench_datagram peers) at=$CONTROL ends=1
		server=(--data "${ADDRESS[$1]}" --device "${RIGHT_DEV[$1]}") client=(--data "${ADDRESS[$1]}" --device "${LEFT_DEV[$1]}")
	fi
	reason=
	before=$(settled_memory)
	! idle_pair "$2" || after=$(settled_memory)
	end_pairs
	[ -n "$reason" ] || [ "$held" = "$2" ] || spread_memory "$held"
	end_pairs
	[ -z "$reason" ] || return
	# What is next to nothing may be lost in what comes and goes by itself.
	[ $ends = 2 ] || [ "$after" -gt "$before" ] || note="lost in what varies by itself" after=$before
	figure "$(awk -v a="$after" -v b="$before" -v n="$((ends * held))" 'BEGIN { printf "%.6f", (a - b) / n }')" 1 \
		$((ends - 1))e-2 100000 1
}
idle_or_gone() { grep -qs '^up ' "$WORK/client" || ! kill -0 "$1" 2>/dev/null; }
