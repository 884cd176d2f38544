# SPDX-License-Identifier: GPL-2.0
# Counts what a message takes, which doesn't depend on how busy the machine is. Sourced after contenders.sh.

# can_count: whether this guest has what counts; that calls bench_crc.ko
can_count() {
	local module
	for module in bench_crc bench_count; do
		[ -e /sys/module/$module ] || insmod "$MODULES/$module.ko" || return
	done
}

# load_counted: has both drivers call what counts
load_counted() {
	local names
	mapfile -t names < <(nm "$MODULES/bench_count.ko" | sed -n 's/.* __ksymtab_count_\(.*\)/\1=count_\1/p')
	load_drivers "${names[@]}"
}

# counted: what has been counted since the guest came up, by both drivers' modules, TCP of both hosts and the scheduler
counted() {
	awk '{ print $1 == "crc" ? "octets under CRC: " $3 : $1 ": " $2 }
		$1 == "copies" { print "octets copied: " $3 }' /proc/bench_count
	for host in left right; do "$host" cat /proc/net/snmp; done | awk '
		/^Tcp: [0-9]/ { sum += $at }
		/^Tcp: RtoAlgorithm/ { for (at = 1; $at != "OutSegs"; at++); }
		END { print "TCP segments: " sum }'
	awk '/^ctxt/ { print "context switches: " $2 }' /proc/stat
}

# measure_counters WHO MESSAGES: sets "per_message" to lines "NAME: VALUE". What a message takes is what a long run takes more
# than a short one, so that neither the programs' start nor the connection counts. 64 octets go both ways in turn, 8 are
# posted in lists of 32. System calls are those of the client, for its own messages, in runs of their own.
measure_counters() {
	if [ "$kind" = connection ]; then
		measure_setup "$@"
		return
	fi
	local short=512 long=$((512 + $2)) who=$1 tool=ib_${kind%_events}_bw options=() messages=$2 tracer=() calls
	case $octets in
	8) options=(-l 32) ;;
	64) tool=ib_${kind%_events}_lat messages=$((2 * $2)) ;;
	esac
	[ "$kind" = "${kind%_events}" ] || options=(-e)
	counted >"$WORK/before"
	one_run $short || return
	counted >"$WORK/between"
	one_run $long || return
	counted >"$WORK/after"

	tracer=("${STRACE[@]}" "$WORK/trace")
	one_run $short && calls_of_trace "$WORK/trace" || return
	calls=$value
	one_run $long && calls_of_trace "$WORK/trace" || return
	per_message=$(
		per_message "$messages" "$WORK"/{before,between,after}
		calls_of_each $((value - calls)) "$2"
	)
}
# measure_setup WHO CONNECTIONS: the same of a connection that is made and closed: system calls of both ends
measure_setup() {
	local short=64 calls
	traced_setup "$1" $short || return
	calls=$value
	traced_setup "$1" $((short + $2)) || return
	per_message=$(calls_of_each $((value - calls)) "$2")
}
# traced_setup WHO CONNECTIONS: sets "value"
traced_setup() {
	local calls tracer=("${STRACE[@]}" "$WORK/trace") server_tracer=("${STRACE[@]}" "$WORK/trace.server")
	measure_connections "$@" && calls_of_trace "$WORK/trace" || return
	calls=$value
	calls_of_trace "$WORK/trace.server" && value=$((value + calls))
}
calls_of_each() { awk -v calls="$1" -v n="$2" 'BEGIN { printf "system calls: %.3f\n", calls / n }'; }
STRACE=(strace -f -c -U "calls,name" -o)
one_run() { perftest "$who" "$tool" "$1" "${options[@]}"; }
