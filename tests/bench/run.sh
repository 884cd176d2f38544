#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh REPETITIONS TENTHS NAME...: measures, inside a guest that scripts/bench has booted with the peer driver.
# Each run should take about TENTHS tenths of a second. One line of JSON for each run goes to /out/samples.jsonl.
#
# Contenders take turns within every repetition, so that a busy moment of the machine meets all of them. The first round
# is not counted: it warms up and finds out how many iterations a run needs.
. /src/tests/lib.sh
REPETITIONS=$1 TENTHS=$2
shift 2
LIMIT=$((15 + TENTHS))
SAMPLES=/out/samples.jsonl
: >"$SAMPLES"

# Which devices and addresses belong to whom: left device, right device, address in right, interfaces
declare -A LEFT_DEV=([ours]=kiw0 [siw]=siw0) RIGHT_DEV=([ours]=kiw1 [siw]=siw1)
declare -A ADDRESS=([ours]=10.77.0.2 [siw]=10.78.0.2 [tcp]=10.77.0.2)
declare -A CRC_SWITCH=([ours]=/sys/module/kiwarp/parameters/crc [siw]=/sys/module/siw/parameters/mpa_crc_required)
PINGPONG=/usr/lib/kiwarp/tests/bench_pingpong

declare -A count=()	# iterations for a run, by contender and cell
declare -A broken=()	# why a contender can't run a cell
port=20000

# sample NAME=VALUE...: one line of JSON; a value that isn't a number becomes a string
sample() {
	local word name value line=
	for word; do
		name=${word%%=*} value=${word#*=}
		value=${value//[$'\t\r\n']/ }
		[[ $value =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || value="\"${value//[\"\\]/ }\""
		line+="${line:+, }\"$name\": $value"
	done
	echo "{$line}" >>"$SAMPLES"
}

listening() { right ss -Hltn "sport = :$port" | grep -q .; }
ready() { listening || ! kill -0 "$1" 2>/dev/null; }

# both SERVER... -- CLIENT...: runs both, the client once the server listens on $port; both must end with 0. Leaves their
# output in $WORK/server and $WORK/client, and sets "reason" when it didn't work
both() {
	local server=() pid status=0 server_status=0
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	reason=
	ip netns exec right timeout -k 2 "$LIMIT" "${server[@]}" >"$WORK/server" 2>&1 &
	pid=$!
	until_true ready "$pid" || :
	ip netns exec left timeout -k 2 "$LIMIT" "$@" >"$WORK/client" 2>&1 || status=$?
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

# perftest WHO TOOL OCTETS ITERATIONS OPTION...: prints the line of figures
perftest() {
	local who=$1 tool=$2 octets=$3 n=$4
	shift 4
	local options=(-R -F -s "$octets" -n "$n" -p "$port" "$@")
	both "$tool" -d "${RIGHT_DEV[$who]}" "${options[@]}" -- \
		"$tool" -d "${LEFT_DEV[$who]}" "${options[@]}" "${ADDRESS[$who]}" || return
	line=$(grep -E "^ *$octets +$n " "$WORK/client" | head -n 1)
	[ -n "$line" ] || reason="no line of figures"
	[ -z "$reason" ]
}

# figure FIELD MIN MAX FACTOR: sets "value" from the line of figures, if it can be true
figure() {
	value=$(awk -v f="$1" -v min="$2" -v max="$3" -v k="$4" '{ v = $f * k; if (v >= min && v <= max) printf "%.3f", v }' <<<"$line")
	[ -n "$value" ] || reason="a figure that can't be: $line"
	[ -z "$reason" ]
}

# The measurements. Each sets "value", or "reason" and returns false.

# bandwidth WHO KIND OCTETS ITERATIONS: megabytes (10^6) per second
bandwidth() {
	if [ "$1" = tcp ]; then
		# iperf3's shortest time is a second
		both iperf3 -s -1 -B "${ADDRESS[tcp]}" -p "$port" -- \
			iperf3 -c "${ADDRESS[tcp]}" -p "$port" -l "$3" -t $(((TENTHS + 9) / 10)) -J || return
		line=$(jq -r '.end.sum_received.bits_per_second' "$WORK/client")
		figure 1 0.01 1000000 0.000000125
	else
		# perftest counts 2^20 octets
		perftest "$1" "ib_$2_bw" "$3" "$4" && figure 4 0.01 1000000 1.048576
	fi
}

# latency WHO KIND OCTETS ITERATIONS: microseconds, median; half of a round trip, except for Reads
latency() {
	local options=() mode=spinning
	case $2 in
	*_events) options=(-e) mode=blocking ;;
	esac
	if [ "$1" = tcp ]; then
		both $PINGPONG $mode server "${ADDRESS[tcp]}" "$port" "$3" "$4" -- \
			$PINGPONG $mode client "${ADDRESS[tcp]}" "$port" "$3" "$4" || return
		line=$(cat "$WORK/client")
		figure 1 0.1 1000000 1
	else
		perftest "$1" "ib_${2%_events}_lat" "$3" "$4" "${options[@]}" && figure 5 0.1 1000000 1
	fi
}

# iterations GROUP OCTETS VALUE: how many make a run as long as it should be
iterations() {
	awk -v group="$1" -v octets="$2" -v v="$3" -v s="$TENTHS" 'BEGIN {
		n = group == "bandwidth" ? v * 1e6 * s / 10 / octets : 1e6 * s / 10 / (2 * v)
		min = group == "bandwidth" ? 200 : 1000
		print int(n < min ? min : n > 200000 ? 200000 : n)
	}'
}

# turn REPETITION WHO GROUP KIND OCTETS MTU CRC: one run of one contender
turn() {
	local rep=$1 who=$2 group=$3 kind=$4 octets=$5 mtu=$6 crc=$7 key n first=500 value="" reason=""
	key="$who $kind $octets $mtu $crc"
	[ -z "${broken[$key]:-}" ] || return 0
	[ "$octets" -lt 16384 ] || first=200
	n=${count[$key]:-$first}
	if ! "$group" "$who" "$kind" "$octets" "$n"; then
		# Once more: a run may fail for a reason that passes.
		"$group" "$who" "$kind" "$octets" "$n" || {
			broken[$key]=$reason
			sample group="$group" kind="$kind" octets="$octets" mtu="$mtu" crc="$crc" who="$who" rep="$rep" failed="$reason"
			echo "  $key: $reason"
			tail -n 3 "$WORK/client" "$WORK/server" | sed 's/^/    | /'
			return 0
		}
	fi
	if [ "$rep" = 0 ]; then
		count[$key]=$(iterations "$group" "$octets" "$value")
		printf '  %-34s about %s\n' "$key" "$value"
	else
		sample group="$group" kind="$kind" octets="$octets" mtu="$mtu" crc="$crc" who="$who" rep="$rep" value="$value" iterations="$n"
	fi
}

set_mtu() {
	local n
	for n in 0 2; do
		ip -n left link set "veth$n" mtu "$1"
		ip -n right link set "veth$((n + 1))" mtu "$1"
	done
}
set_crc() {
	local who
	for who in ours siw; do
		[ ! -e "${CRC_SWITCH[$who]}" ] || echo "$([ "$1" = on ] && echo Y || echo N)" >"${CRC_SWITCH[$who]}"
	done
}

# Bandwidth: one TCP stream is the measure for all kinds of one size, whatever the CRC does.
group_bandwidth() {
	local rep octets mtu crc kind who
	for mtu in 1500 9000; do
		set_mtu $mtu
		for octets in 65536 4096; do
			echo "bandwidth, $octets octets, MTU $mtu"
			for ((rep = 0; rep <= REPETITIONS; rep++)); do
				for crc in off on; do
					set_crc $crc
					for kind in write send read; do
						for who in ours siw; do turn $rep $who bandwidth $kind $octets $mtu $crc; done
					done
				done
				turn $rep tcp bandwidth stream $octets $mtu none
			done
		done
	done
	set_mtu 1500
	set_crc off
}

group_latency() {
	local rep crc kind who
	set_mtu 1500
	echo "latency, 64 octets, MTU 1500"
	for ((rep = 0; rep <= REPETITIONS; rep++)); do
		for crc in off on; do
			set_crc $crc
			for kind in write send read send_events; do
				for who in ours siw; do turn $rep $who latency $kind 64 1500 $crc; done
			done
		done
		for kind in stream stream_events; do turn $rep tcp latency $kind 64 1500 none; done
	done
	set_crc off
}

{
	echo "kernel=$(uname -r)"
	echo "guest=$(. /ctl/options; echo "$GUEST")"
	echo "cpus=$(nproc)"
} >/out/about
for group; do "group_$group"; done
exit 0
