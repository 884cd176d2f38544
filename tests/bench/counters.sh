# SPDX-License-Identifier: GPL-2.0
# Counts what a message takes, which doesn't depend on how busy the machine is. Sourced after contenders.sh.

# can_count: whether the guests have what counts; that calls bench_crc.ko
can_count() {
	local module
	for module in bench_crc bench_count; do
		[ -e /sys/module/$module ] || everywhere insmod "$MODULES/$module.ko" || return
	done
}

# load_counted: has both drivers call what counts
load_counted() {
	local names
	mapfile -t names < <(nm "$MODULES/bench_count.ko" | sed -n 's/.* __ksymtab_count_\(.*\)/\1=count_\1/p')
	load_drivers "${names[@]}"
}

# counted: what has been counted since the guests came up, by both drivers' modules, TCP and interfaces of both hosts and the
# schedulers. A packet is what an interface is given, which may be many segments of TCP.
counted() {
	everywhere cat /proc/bench_count | awk '
		{ calls[$1] += $2; octets[$1] += $3 }
		END {
			for (name in calls)
				print name == "crc" ? "octets under CRC: " octets[name] : name ": " calls[name]
			print "octets copied: " octets["copies"]
		}' | sort
	for host in left right; do "$host" cat /proc/net/snmp; done | awk '
		/^Tcp: [0-9]/ { sum += $at }
		/^Tcp: RtoAlgorithm/ { for (at = 1; $at != "OutSegs"; at++); }
		END { print "TCP segments: " sum }'
	left cat /proc/net/dev | awk '/veth/ { sum += $11 } END { print "packets of left: " sum }'
	right cat /proc/net/dev | awk '/veth/ { sum += $11 } END { print "packets of right: " sum }'
	everywhere cat /proc/stat | awk '/^ctxt/ { sum += $2 } END { print "context switches: " sum }'
}

# measure_counters CONTENDER MESSAGES: sets "per_message" to lines "NAME: VALUE". What a message takes is what a long run takes more
# than a short one, so that neither the programs' start nor the connection counts. 64 octets go both ways in turn, 8 are
# posted in lists of 32, and 128 KB in lists of 8. A "connection" is one that is made and closed; of that only system calls are counted, which are
# always those of both ends, in runs of their own.
measure_counters() {
	local short=512 long=$((512 + $2)) contender=$1 tool=ib_${kind%_events}_bw options=() messages=$2 calls
	local run=one_run seen=
	sleeping
	case $octets in
	8) options+=(-l 32) ;;
	131072) options+=(-l 8) ;;
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
one_run() { one_perftest "$contender" "$tool" "$1" "${options[@]}"; }
connections() { measure_connections "$contender" "$1"; }
# traced COMMAND...: sets "value" to how many system calls both ends make
traced() {
	# How often a poller lets others run says only how long it waits.
	local calls strace=(strace -f -c -e "trace=!sched_yield" -U "calls,name" -o)
	local tracer=("${strace[@]}" "$WORK/trace") server_tracer=("${strace[@]}" "$WORK/trace.server")
	"$@" && calls_of_trace "$WORK/trace" || return
	calls=$value
	# shellcheck disable=SC2094 # the other file is right's
	[ $KERNELS = 1 ] || right cat "$WORK/trace.server" >"$WORK/trace.server"
	calls_of_trace "$WORK/trace.server" && value=$((value + calls))
}
