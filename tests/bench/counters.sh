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

# measure_counters CONTENDER MESSAGES: sets "per_message" to lines "NAME: VALUE". What a message takes is what a long run takes more
# than a short one, so that neither the programs' start nor the connection counts. 64 octets go both ways in turn, 8 are
# posted in lists of 32. A "connection" is one that is made and closed; of that only system calls are counted, which are
# always those of both ends, in runs of their own.
measure_counters() {
	local short=512 long=$((512 + $2)) contender=$1 tool=ib_${kind%_events}_bw options=() messages=$2 calls
	local run=one_run seen=
	sleeping
	case $octets in
	8) options+=(-l 32) ;;
	64) tool=ib_${kind%_events}_lat messages=$((2 * $2)) ;;
	esac
	if [ "$kind" = connection ]; then
		run=connections
	else
		counted >"$WORK/before"
		one_run $short || return
		counted >"$WORK/between"
		one_run $long || return
		counted >"$WORK/after"
		seen=$(per_message "$messages" "$WORK"/{before,between,after})
	fi
	traced $run $short || return
	calls=$value
	traced $run $long || return
	per_message=$seen${seen:+$'\n'}$(
		awk -v calls=$((value - calls)) -v n="$messages" 'BEGIN { printf "system calls: %.3f", calls / n }'
	)
}
one_run() { perftest "$contender" "$tool" "$1" "${options[@]}"; }
connections() { measure_connections "$contender" "$1"; }
# traced COMMAND...: sets "value" to how many system calls both ends make
traced() {
	# How often a poller lets others run says only how long it waits.
	local calls strace=(strace -f -c -e "trace=!sched_yield" -U "calls,name" -o)
	local tracer=("${strace[@]}" "$WORK/trace") server_tracer=("${strace[@]}" "$WORK/trace.server")
	"$@" && calls_of_trace "$WORK/trace" || return
	calls=$value
	calls_of_trace "$WORK/trace.server" && value=$((value + calls))
}
